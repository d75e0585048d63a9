package guest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/poll"
	v1 "kubevirt.io/api/core/v1"
)

// fakeAgent gives the answers of a test, and counts the questions.
type fakeAgent struct {
	mutex  sync.Mutex
	answer func(ctx context.Context) (hypervisor.AgentFacts, error)
	asked  int
	// taken are the credentials that the agent was given, and refused is a user whose credentials it refuses.
	taken   []string
	refused string
}

func (f *fakeAgent) AgentFacts(ctx context.Context, _ hypervisor.Owner) (hypervisor.AgentFacts, error) {
	f.mutex.Lock()
	answer := f.answer
	f.asked++
	f.mutex.Unlock()
	return answer(ctx)
}

func (f *fakeAgent) SetAuthorizedKeys(_ context.Context, _ hypervisor.Owner, user string, keys []string) error {
	return f.takeCredential(user, "keys "+strings.Join(keys, ","))
}

func (f *fakeAgent) SetPassword(_ context.Context, _ hypervisor.Owner, user, password string) error {
	return f.takeCredential(user, "password "+password)
}

func (f *fakeAgent) takeCredential(user, what string) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.taken = append(f.taken, user+" "+what)
	if user == f.refused {
		return errors.New("no such user\n\x1b[31m")
	}
	return nil
}

// takenCredentials returns the credentials that the agent was given since the last call.
func (f *fakeAgent) takenCredentials() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	taken := f.taken
	f.taken = nil
	return taken
}

func (f *fakeAgent) setAnswer(answer func(ctx context.Context) (hypervisor.AgentFacts, error)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.answer = answer
}

// waitForQuestions waits until the agent has been asked the given number of further times.
func (f *fakeAgent) waitForQuestions(t *testing.T, more int) {
	t.Helper()
	count := func() int {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		return f.asked
	}
	before := count()
	if !poll.Until(time.Minute, func() bool { return count() >= before+more }) {
		t.Fatal("the agent is not asked")
	}
}

func agentAbsent(context.Context) (hypervisor.AgentFacts, error) {
	return hypervisor.AgentFacts{}, errors.New("the agent is not connected")
}

func agentHangs(ctx context.Context) (hypervisor.AgentFacts, error) {
	<-ctx.Done()
	return hypervisor.AgentFacts{}, ctx.Err()
}

func agentReports(facts hypervisor.AgentFacts) func(context.Context) (hypervisor.AgentFacts, error) {
	return func(context.Context) (hypervisor.AgentFacts, error) { return facts, nil }
}

func agentInterface(name, mac string, ips ...string) hypervisor.AgentInterface {
	nic := hypervisor.AgentInterface{Name: name, MAC: mac}
	for _, ip := range ips {
		nic.IPs = append(nic.IPs, struct {
			Address string `json:"ip-address"`
		}{ip})
	}
	return nic
}

const cardMAC = "52:54:00:ab:cd:01"

// startGuestWithAgent runs a guest that has a network card with cardMAC, and an agent.
func startGuestWithAgent(t *testing.T, agent *fakeAgent, interval time.Duration) *testGuest {
	t.Helper()
	vmi := explicit.Plain(t, "guest")
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default", Model: "virtio", MacAddress: strings.ToUpper(cardMAC),
		InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}
	vmi.Spec.Networks = []v1.Network{{Name: "default", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}}}
	l := startTestGuest(t, serveVMI(t, vmi), newFakeHypervisor(), func(g *guest.Guest, _ *fakeMachine) { g.Agent, g.AgentInterval = agent, interval })
	l.waitForStatus(t, "a guest that runs", inState(v1alpha1.GuestRunning))
	return l
}

func (l *testGuest) patchCount() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.requests["PATCH"]
}

func hasAgent(s v1alpha1.GuestPodStatus) bool { return s.Agent != nil }

// TestAgent: an agent's answer is reported once for each change, and removed when the agent has missed two questions, or the guest has ended.
func TestAgent(t *testing.T) {
	t.Parallel()
	agent := &fakeAgent{answer: agentAbsent}
	l := startGuestWithAgent(t, agent, 40*time.Millisecond)
	agent.waitForQuestions(t, 3)
	before := l.patchCount()
	facts := hypervisor.AgentFacts{OS: hypervisor.AgentOS{ID: "debian", PrettyName: "Debian 13"}, Hostname: "shop",
		Interfaces: []hypervisor.AgentInterface{agentInterface("lo", "00:00:00:00:00:00", "127.0.0.1"), agentInterface("eth0", cardMAC, "10.1.0.7", "fe80::1"),
			agentInterface("docker0", "02:42:00:00:00:01", "172.17.0.1")}}
	agent.setAnswer(agentReports(facts))
	want := &v1alpha1.GuestAgent{OS: &v1alpha1.GuestOS{ID: "debian", PrettyName: "Debian 13"}, Hostname: "shop",
		Interfaces: []v1alpha1.GuestInterface{{Name: "eth0", MAC: cardMAC, IPs: []string{"10.1.0.7", "fe80::1"}}}}
	if diff := cmp.Diff(want, l.waitForStatus(t, "an agent that answers", hasAgent).Agent); diff != "" {
		t.Errorf("agent (-want +got):\n%s", diff)
	}
	agent.waitForQuestions(t, 5)
	if got := l.patchCount() - before; got != 1 {
		t.Errorf("the same facts cost %d reports", got)
	}
	l.libvirt.setState("suspend", hypervisor.Paused)
	l.waitForStatus(t, "a guest that is paused", inState(v1alpha1.GuestPaused))
	agent.setAnswer(agentAbsent)
	time.Sleep(200 * time.Millisecond) // five intervals; nothing to wait for, because the agent of a paused guest is not asked
	if pod, _ := l.currentPod(); !hasAgent(pod.Status) {
		t.Error("a guest that is paused has lost its agent")
	}
	l.libvirt.setState("resume", hypervisor.Running)
	l.waitForStatus(t, "an agent that is gone", func(s v1alpha1.GuestPodStatus) bool { return !hasAgent(s) })
	agent.setAnswer(agentReports(facts))
	l.waitForStatus(t, "an agent that is back", hasAgent)
	l.libvirt.setState("end", hypervisor.PoweredOff)
	if err := l.waitForEnd(t); err != nil {
		t.Error(err)
	}
	if pod, _ := l.currentPod(); hasAgent(pod.Status) || pod.Status.Domain.State != v1alpha1.GuestPoweredOff {
		t.Errorf("the last status is %+v", pod.Status)
	}
}

// TestAgentMissesOnce: an agent that misses single questions, as in a busy guest, stays reported.
func TestAgentMissesOnce(t *testing.T) {
	t.Parallel()
	n := 0
	agent := &fakeAgent{answer: func(ctx context.Context) (hypervisor.AgentFacts, error) {
		if n++; n%2 == 0 {
			return agentAbsent(ctx)
		}
		return hypervisor.AgentFacts{Hostname: "shop"}, nil
	}}
	l := startGuestWithAgent(t, agent, 20*time.Millisecond)
	l.waitForStatus(t, "an agent that answers", hasAgent)
	before := l.patchCount()
	agent.waitForQuestions(t, 8)
	if got := l.patchCount() - before; got != 0 {
		t.Errorf("an agent that misses each second question costs %d reports", got)
	}
}

// TestAgentHangs: an agent that never answers delays neither events nor the stop.
func TestAgentHangs(t *testing.T) {
	t.Parallel()
	agent := &fakeAgent{answer: agentHangs}
	l := startGuestWithAgent(t, agent, 24*time.Second) // one question takes longer than what follows
	l.libvirt.setState("suspend", hypervisor.Paused)
	l.waitForStatus(t, "a guest that is paused", inState(v1alpha1.GuestPaused))
	l.libvirt.setState("resume", hypervisor.Running)
	l.waitForStatus(t, "a guest that runs again", inState(v1alpha1.GuestRunning))
	agent.waitForQuestions(t, 1)
	l.libvirt.update(func() { l.libvirt.powersOff = true })
	begun := time.Now()
	l.stop()
	if err := l.waitForEnd(t); err != nil || time.Since(begun) > 6*time.Second {
		t.Errorf("the stop took %s: %v", time.Since(begun), err)
	}
}

// TestAgentFloods: the reported answer is within the bounds of the CRD, whatever the agent answers.
func TestAgentFloods(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("語\x1b\u202e\n", 100_000)
	facts := hypervisor.AgentFacts{Hostname: long, OS: hypervisor.AgentOS{Name: long, KernelRelease: long, Version: long, PrettyName: long, VersionID: long,
		KernelVersion: long, Machine: long, ID: long}}
	var ips []string
	for i := range 1000 {
		ips = append(ips, fmt.Sprintf("fd00::%x%%eth0", i), long, "127.0.0.1")
	}
	facts.Interfaces = append(facts.Interfaces, agentInterface(long, long, ips...), agentInterface("", ""))
	for range 1000 {
		facts.Interfaces = append(facts.Interfaces, agentInterface(long, strings.ToUpper(cardMAC), ips...))
	}
	agent := &fakeAgent{answer: agentReports(facts)}
	got := startGuestWithAgent(t, agent, 40*time.Millisecond).waitForStatus(t, "an agent that answers", hasAgent).Agent
	if len(got.Interfaces) != v1alpha1.MostAgentInterfaces {
		t.Errorf("%d interfaces", len(got.Interfaces))
	}
	for _, nic := range got.Interfaces {
		if nic.MAC != cardMAC || nic.Name != strings.Repeat("語", v1alpha1.LongestAgentName) || len(nic.IPs) != v1alpha1.MostAgentIPs ||
			slices.ContainsFunc(nic.IPs, func(ip string) bool { return len(ip) > 45 || strings.Contains(ip, "%") }) {
			t.Fatalf("an interface is %+v", nic)
		}
	}
	text := strings.Repeat("語", v1alpha1.LongestAgentText)
	want := v1alpha1.GuestOS{Name: text, KernelRelease: text, Version: text, PrettyName: text, VersionID: text, KernelVersion: text, Machine: text, ID: text}
	if *got.OS != want || got.Hostname != strings.Repeat("語", v1alpha1.LongestHostname) {
		t.Errorf("the texts are %+v, %s", got.OS, got.Hostname)
	}
}
