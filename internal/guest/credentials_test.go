package guest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/test/explicit"
	v1 "kubevirt.io/api/core/v1"
)

// failsWith reports whether the last attempt to give accessCredentials failed with a text that contains a word; with an empty word, whether it succeeded.
func failsWith(word string) func(v1alpha1.GuestPodStatus) bool {
	return func(s v1alpha1.GuestPodStatus) bool {
		return s.Credentials != nil && strings.Contains(s.Credentials.Failure, word) && (s.Credentials.Failure == "") == (word == "")
	}
}

// TestCredentials: an agent gets accessCredentials when it first answers, when they change, after a failure, and when it answers again: no more often.
func TestCredentials(t *testing.T) {
	t.Parallel()
	agent := &fakeAgent{answer: agentAbsent}
	vmi := explicit.Plain(t, "guest")
	vmi.Spec.AccessCredentials = []v1.AccessCredential{{UserPassword: &v1.UserPasswordAccessCredential{}}}
	l := startTestGuest(t, serveVMI(t, vmi), newFakeHypervisor(), func(g *guest.Guest, m *fakeMachine) {
		g.Agent, g.AgentInterval = agent, 40*time.Millisecond
		m.setCredentials(map[string][]string{"b": {"key 1", "key 2"}, "a": nil}, map[string]string{"root": "secret"}, nil)
	})
	took := func(when string, want ...string) {
		t.Helper()
		agent.waitForQuestions(t, 3)
		if diff := cmp.Diff(want, agent.takenCredentials()); diff != "" {
			t.Errorf("%s, the agent was given (-want +got):\n%s", when, diff)
		}
	}
	l.waitForStatus(t, "an agent that does not answer yet", failsWith("does not answer"))
	took("before it answers")
	facts := agentReports(hypervisor.AgentFacts{Hostname: "shop"})
	agent.setAnswer(facts)
	l.waitForStatus(t, "credentials that the agent has taken", failsWith(""))
	took("when it first answers", "a keys ", "b keys key 1,key 2", "root password secret")
	l.machine.setCredentials(map[string][]string{"a": {"key 3"}}, map[string]string{"root": "other"}, nil)
	agent.waitForQuestions(t, 3)
	took("after a change", "a keys key 3", "root password other")

	agent.setAnswer(agentAbsent)
	l.waitForStatus(t, "an agent that is gone", failsWith("does not answer"))
	agent.setAnswer(facts)
	l.waitForStatus(t, "an agent that is back", failsWith(""))
	took("when it answers again", "a keys key 3", "root password other")

	l.machine.setCredentials(nil, nil, errors.New("the Secret is not mounted"))
	l.waitForStatus(t, "a Secret that cannot be read", failsWith("the Secret is not mounted"))
	l.libvirt.setState("end", hypervisor.PoweredOff)
	if err := l.waitForEnd(t); err != nil {
		t.Error(err)
	}
	if pod, _ := l.currentPod(); pod.Status.Credentials != nil {
		t.Errorf("the last status has %+v", pod.Status.Credentials)
	}
}

// TestCredentialsRefused: a user that the guest does not have keeps no credentials from the others. The reason is reported without control characters, and no
// password is.
func TestCredentialsRefused(t *testing.T) {
	t.Parallel()
	agent := &fakeAgent{answer: agentReports(hypervisor.AgentFacts{}), refused: "a"}
	vmi := explicit.Plain(t, "guest")
	vmi.Spec.AccessCredentials = []v1.AccessCredential{{UserPassword: &v1.UserPasswordAccessCredential{}}}
	l := startTestGuest(t, serveVMI(t, vmi), newFakeHypervisor(), func(g *guest.Guest, m *fakeMachine) {
		g.Agent, g.AgentInterval = agent, 20*time.Millisecond
		m.setCredentials(map[string][]string{"a": {"key"}, "b": {"key"}}, map[string]string{"a": "hidden", "b": "hidden"}, nil)
	})
	got := l.waitForStatus(t, "a refusal", failsWith("user 'a'")).Credentials.Failure
	if want := "SSH keys of user 'a': no such user[31m; password of user 'a': no such user[31m"; got != want {
		t.Errorf("the failure is %q, want %q", got, want)
	}
	agent.waitForQuestions(t, 3)
	if taken := agent.takenCredentials(); !slices.Contains(taken, "b keys key") || !slices.Contains(taken, "b password hidden") {
		t.Errorf("the other user has got %v", taken)
	}
}

// TestNoCredentials: a VMI without accessCredentials for the agent reports nothing about them.
func TestNoCredentials(t *testing.T) {
	t.Parallel()
	agent := &fakeAgent{answer: func(context.Context) (hypervisor.AgentFacts, error) {
		return hypervisor.AgentFacts{Hostname: "shop"}, nil
	}}
	vmi := explicit.Plain(t, "guest")
	byCloudInit := v1.SSHPublicKeyAccessCredentialPropagationMethod{NoCloud: &v1.NoCloudSSHPublicKeyAccessCredentialPropagation{}}
	vmi.Spec.AccessCredentials = []v1.AccessCredential{{SSHPublicKey: &v1.SSHPublicKeyAccessCredential{PropagationMethod: byCloudInit}}}
	l := startTestGuest(t, serveVMI(t, vmi), newFakeHypervisor(), func(g *guest.Guest, m *fakeMachine) {
		g.Agent, g.AgentInterval = agent, 20*time.Millisecond
		m.setCredentials(map[string][]string{"a": {"key"}}, nil, nil)
	})
	if status := l.waitForStatus(t, "an agent that answers", hasAgent); status.Credentials != nil || len(agent.takenCredentials()) > 0 {
		t.Errorf("the agent was given credentials: %+v", status.Credentials)
	}
}
