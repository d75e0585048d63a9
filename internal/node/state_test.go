package node

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/test/libvirt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
)

// TestHowGuestsEnd: whatever happens to a guest on its machine, its VMI says so, by phase, condition and event.
func TestHowGuestsEnd(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connected(t, d)
	listening(t, l)
	for _, c := range []struct {
		name   string
		happen func(t *testing.T, domain string)
		phase  v1.VirtualMachineInstancePhase
		reason string
	}{
		{"killed", does(func(domain string) error { return libvirt.Signal(domain, syscall.SIGKILL) }), v1.Failed, "Crashed"},
		{"with-its-machine", does(func(domain string) error { return libvirt.Signal(domain, syscall.SIGTERM) }), v1.Failed, "EndedWithHost"},
		{"destroyed", does(d.Destroy), v1.Failed, "Destroyed"},
		{"undefined", func(t *testing.T, domain string) { does(d.Destroy)(t, domain); does(d.Undefine)(t, domain) }, v1.Failed, "DomainGone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			vmi := claimed(t, c.name)
			api := holding(t, vmi)
			n := node(t, l, api, api)
			if after := run(t, n, vmi); after.Status.Phase != v1.Running {
				t.Fatalf("phase is '%s': %v", after.Status.Phase, after.Status.Conditions)
			}
			c.happen(t, n.owner(vmi).Domain())
			waitUntil(t, "libvirt has noticed", func() bool {
				status, err := l.State(t.Context(), n.owner(vmi))
				return err == nil && !status.Active()
			})
			ended(t, n, run(t, n, vmi), c.phase, c.reason)
			if err := l.Remove(t.Context(), n.owner(vmi)); err != nil {
				t.Error(err)
			}
		})
	}
}

// listening returns when libvirt's events are heard.
func listening(t *testing.T, l *hypervisor.Libvirt) {
	t.Helper()
	heard := make(chan struct{})
	var once sync.Once
	go l.Watch(t.Context(), func(hypervisor.Event) { once.Do(func() { close(heard) }) })
	<-heard
}

// TestGuestAfterTheHostRestarted: libvirt knows the domain, which is off, and nothing of its run.
func TestGuestAfterTheHostRestarted(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	vmi := claimed(t, "rebooted")
	vmi.Status.Phase = v1.Running
	api := holding(t, vmi)
	n := node(t, connected(t, d), api, api)
	guest := hypervisor.Guest{Owner: n.owner(vmi), Documents: rendered(t, n, vmi)}
	if err := n.Hypervisor.Start(t.Context(), guest); err != nil {
		t.Fatal(err)
	}
	text := virsh(t, d, "dumpxml", "--inactive", "default_rebooted")
	if err := errors.Join(d.Destroy("default_rebooted"), d.Undefine("default_rebooted")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Define(text); err != nil {
		t.Fatal(err)
	}
	ended(t, n, run(t, n, vmi), v1.Failed, "EndedWithHost")
}

// ended compares how a VMI ended, and what was said of it.
func ended(t *testing.T, n *Node, vmi *v1.VirtualMachineInstance, phase v1.VirtualMachineInstancePhase, reason string) {
	t.Helper()
	if vmi.Status.Phase != phase {
		t.Errorf("phase is '%s', want '%s'", vmi.Status.Phase, phase)
	}
	ready := conditionOf(vmi, v1.VirtualMachineInstanceReady)
	if ready.Status != corev1.ConditionFalse || ready.Reason != reason || ready.Message == "" {
		t.Errorf("condition Ready is %+v, want reason '%s'", ready, reason)
	}
	select {
	case event := <-n.Events.(*events.FakeRecorder).Events:
		if !strings.HasPrefix(event, "Warning "+reason+" ") {
			t.Errorf("the event is '%s', want a warning of '%s'", event, reason)
		}
	default:
		t.Error("no event says how the guest has ended")
	}
}

func conditionOf(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) v1.VirtualMachineInstanceCondition {
	for _, c := range vmi.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.VirtualMachineInstanceCondition{}
}

func does(what func(string) error) func(*testing.T, string) {
	return func(t *testing.T, domain string) {
		t.Helper()
		if err := what(domain); err != nil {
			t.Fatal(err)
		}
	}
}

// waitUntil waits for what libvirt notices by itself.
func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 600 {
		if done() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("did not come to pass: %s", what)
}

// TestPausedGuest: a VMI whose domain is paused is not Ready, and its conditions have the reason.
func TestPausedGuest(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	vmi := claimed(t, "paused")
	paused := v1.StartStrategyPaused
	vmi.Spec.StartStrategy = &paused
	api := holding(t, vmi)
	n := node(t, connected(t, d), api, api)
	stands := func(want bool) {
		t.Helper()
		after := run(t, n, vmi)
		ready, paused := conditionOf(after, v1.VirtualMachineInstanceReady), conditionOf(after, v1.VirtualMachineInstancePaused)
		if after.Status.Phase != v1.Running || (ready.Status == corev1.ConditionFalse) != want || (paused.Status == corev1.ConditionTrue) != want {
			t.Errorf("phase '%s', Ready %+v, Paused %+v; want it paused: %t", after.Status.Phase, ready, paused, want)
		}
		if want && (paused.Reason != "PausedByUser" || paused.Message == "") {
			t.Errorf("condition Paused is %+v", paused)
		}
	}
	stands(true)
	if state, err := d.State("default_paused"); err != nil || state != "paused" {
		t.Errorf("libvirt says '%s' (%v), want 'paused'", state, err)
	}
	does(d.Resume)(t, "default_paused")
	stands(false)
	does(d.Suspend)(t, "default_paused")
	stands(true)
}
