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
	v1 "kubevirt.io/api/core/v1"
)

// fakeAgent answers as a test says.
type fakeAgent struct {
	mutex  sync.Mutex
	answer func(ctx context.Context) (hypervisor.AgentFacts, error)
	asked  int
}

func (f *fakeAgent) AgentFacts(ctx context.Context, _ hypervisor.Owner) (hypervisor.AgentFacts, error) {
	f.mutex.Lock()
	answer := f.answer
	f.asked++
	f.mutex.Unlock()
	return answer(ctx)
}

func (f *fakeAgent) becomes(answer func(ctx context.Context) (hypervisor.AgentFacts, error)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.answer = answer
}

// waits waits for so many more questions.
func (f *fakeAgent) waits(t *testing.T, more int) {
	t.Helper()
	count := func() int {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		return f.asked
	}
	for from, end := count(), time.Now().Add(time.Minute); count() < from+more; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the agent is not asked")
		}
	}
}

func absent(context.Context) (hypervisor.AgentFacts, error) {
	return hypervisor.AgentFacts{}, errors.New("the agent is not connected")
}

func hangs(ctx context.Context) (hypervisor.AgentFacts, error) {
	<-ctx.Done()
	return hypervisor.AgentFacts{}, ctx.Err()
}

func says(facts hypervisor.AgentFacts) func(context.Context) (hypervisor.AgentFacts, error) {
	return func(context.Context) (hypervisor.AgentFacts, error) { return facts, nil }
}

func nicOf(name, mac string, ips ...string) hypervisor.AgentInterface {
	nic := hypervisor.AgentInterface{Name: name, MAC: mac}
	for _, ip := range ips {
		nic.IPs = append(nic.IPs, struct {
			Address string `json:"ip-address"`
		}{ip})
	}
	return nic
}

const cardMAC = "52:54:00:ab:cd:01"

// withAgent runs a guest that has a network card with cardMAC, and an agent.
func withAgent(t *testing.T, agent *fakeAgent, interval time.Duration) *life {
	t.Helper()
	vmi := explicit.Plain(t, "guest")
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default", Model: "virtio", MacAddress: strings.ToUpper(cardMAC),
		InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}
	vmi.Spec.Networks = []v1.Network{{Name: "default", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}}}
	l := live(t, serve(t, vmi), newHypervisor(), func(g *guest.Guest, _ *fakeMachine) { g.Agent, g.AgentInterval = agent, interval })
	l.becomes(t, "a guest that runs", in(v1alpha1.GuestRunning))
	return l
}

func (l *life) patches() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.requests["PATCH"]
}

func connected(s v1alpha1.GuestPodStatus) bool { return s.Agent != nil }

// TestAgent: what an agent says is reported once for each change, and taken back when the agent has missed two questions, or the guest has ended.
func TestAgent(t *testing.T) {
	t.Parallel()
	agent := &fakeAgent{answer: absent}
	l := withAgent(t, agent, 40*time.Millisecond)
	agent.waits(t, 3)
	before := l.patches()
	facts := hypervisor.AgentFacts{OS: hypervisor.AgentOS{ID: "debian", PrettyName: "Debian 13"}, Hostname: "shop",
		Interfaces: []hypervisor.AgentInterface{nicOf("lo", "00:00:00:00:00:00", "127.0.0.1"), nicOf("eth0", cardMAC, "10.1.0.7", "fe80::1"),
			nicOf("docker0", "02:42:00:00:00:01", "172.17.0.1")}}
	agent.becomes(says(facts))
	want := &v1alpha1.GuestAgent{OS: &v1alpha1.GuestOS{ID: "debian", PrettyName: "Debian 13"}, Hostname: "shop",
		Interfaces: []v1alpha1.GuestInterface{{Name: "eth0", MAC: cardMAC, IPs: []string{"10.1.0.7", "fe80::1"}}}}
	if diff := cmp.Diff(want, l.becomes(t, "an agent that answers", connected).Agent); diff != "" {
		t.Errorf("agent (-want +got):\n%s", diff)
	}
	agent.waits(t, 5)
	if got := l.patches() - before; got != 1 {
		t.Errorf("the same facts cost %d reports", got)
	}
	l.libvirt.becomes("suspend", hypervisor.Paused)
	l.becomes(t, "a guest that is paused", in(v1alpha1.GuestPaused))
	agent.becomes(absent)
	time.Sleep(200 * time.Millisecond)
	if pod, _ := l.now(); !connected(pod.Status) {
		t.Error("a guest that is paused has lost its agent")
	}
	l.libvirt.becomes("resume", hypervisor.Running)
	l.becomes(t, "an agent that is gone", func(s v1alpha1.GuestPodStatus) bool { return !connected(s) })
	agent.becomes(says(facts))
	l.becomes(t, "an agent that is back", connected)
	l.libvirt.becomes("end", hypervisor.PoweredOff)
	if err := l.ends(t); err != nil {
		t.Error(err)
	}
	if pod, _ := l.now(); connected(pod.Status) || pod.Status.Domain.State != v1alpha1.GuestPoweredOff {
		t.Errorf("the last status is %+v", pod.Status)
	}
}

// TestAgentMissesOnce: a guest with much to do keeps its agent.
func TestAgentMissesOnce(t *testing.T) {
	t.Parallel()
	n := 0
	agent := &fakeAgent{answer: func(ctx context.Context) (hypervisor.AgentFacts, error) {
		if n++; n%2 == 0 {
			return absent(ctx)
		}
		return hypervisor.AgentFacts{Hostname: "shop"}, nil
	}}
	l := withAgent(t, agent, 20*time.Millisecond)
	l.becomes(t, "an agent that answers", connected)
	before := l.patches()
	agent.waits(t, 8)
	if got := l.patches() - before; got != 0 {
		t.Errorf("an agent that misses each second question costs %d reports", got)
	}
}

// TestAgentHangs: an agent that never answers delays neither events nor the stop.
func TestAgentHangs(t *testing.T) {
	t.Parallel()
	agent := &fakeAgent{answer: hangs}
	l := withAgent(t, agent, 24*time.Second) // one question takes longer than what follows
	l.libvirt.becomes("suspend", hypervisor.Paused)
	l.becomes(t, "a guest that is paused", in(v1alpha1.GuestPaused))
	l.libvirt.becomes("resume", hypervisor.Running)
	l.becomes(t, "a guest that runs again", in(v1alpha1.GuestRunning))
	agent.waits(t, 1)
	l.libvirt.set(func() { l.libvirt.obeys = true })
	begun := time.Now()
	l.stop()
	if err := l.ends(t); err != nil || time.Since(begun) > 6*time.Second {
		t.Errorf("the stop took %s: %v", time.Since(begun), err)
	}
}

// TestAgentFloods: what is reported is within the bounds of the definition, whatever the guest says.
func TestAgentFloods(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("語\x1b\u202e\n", 100_000)
	facts := hypervisor.AgentFacts{Hostname: long, OS: hypervisor.AgentOS{Name: long, KernelRelease: long, Version: long, PrettyName: long, VersionID: long,
		KernelVersion: long, Machine: long, ID: long}}
	var ips []string
	for i := range 1000 {
		ips = append(ips, fmt.Sprintf("fd00::%x%%eth0", i), long, "127.0.0.1")
	}
	facts.Interfaces = append(facts.Interfaces, nicOf(long, long, ips...), nicOf("", ""))
	for range 1000 {
		facts.Interfaces = append(facts.Interfaces, nicOf(long, strings.ToUpper(cardMAC), ips...))
	}
	agent := &fakeAgent{answer: says(facts)}
	got := withAgent(t, agent, 40*time.Millisecond).becomes(t, "an agent that answers", connected).Agent
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
