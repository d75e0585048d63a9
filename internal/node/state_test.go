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
	"github.com/kilnvm/kiln/test/poll"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
)

// TestHowGuestsEnd: phase, condition Ready and an event of a VMI say how its guest has ended.
func TestHowGuestsEnd(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connectLibvirt(t, d)
	awaitEvents(t, l)
	for _, c := range []struct {
		name   string
		happen func(t *testing.T, domain string)
		phase  v1.VirtualMachineInstancePhase
		reason string
	}{
		{"killed", domainAction(func(domain string) error { return libvirt.Signal(domain, syscall.SIGKILL) }), v1.Failed, "Crashed"},
		{"with-its-machine", domainAction(func(domain string) error { return libvirt.Signal(domain, syscall.SIGTERM) }), v1.Failed, "EndedWithHost"},
		{"destroyed", domainAction(d.Destroy), v1.Failed, "Destroyed"},
		{"undefined", func(t *testing.T, domain string) {
			domainAction(d.Destroy)(t, domain)
			domainAction(d.Undefine)(t, domain)
		}, v1.Failed, "DomainGone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			vmi := claimedVMI(t, c.name)
			api := newClusterWithHardware(t, vmi)
			n := newNode(t, l, api, api)
			if after := reconcileRepeatedly(t, n, vmi); after.Status.Phase != v1.Running {
				t.Fatalf("phase is '%s': %v", after.Status.Phase, after.Status.Conditions)
			}
			c.happen(t, n.owner(vmi).Domain())
			waitUntil(t, "libvirt has noticed", func() bool {
				status, err := l.State(t.Context(), n.owner(vmi))
				return err == nil && !status.Active()
			})
			checkEnd(t, n, reconcileRepeatedly(t, n, vmi), c.phase, c.reason)
			if err := l.Remove(t.Context(), n.owner(vmi)); err != nil {
				t.Error(err)
			}
		})
	}
}

// awaitEvents waits until the stream of libvirt's events has begun.
func awaitEvents(t *testing.T, l *hypervisor.Libvirt) {
	t.Helper()
	heard := make(chan struct{})
	var once sync.Once
	go l.Watch(t.Context(), func(hypervisor.Event) { once.Do(func() { close(heard) }) })
	<-heard
}

// TestGuestAfterTheHostRestarted: after a restart of the host libvirt has the domain, which is off, but does not know why it ended.
func TestGuestAfterTheHostRestarted(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	vmi := claimedVMI(t, "rebooted")
	vmi.Status.Phase = v1.Running
	api := newClusterWithHardware(t, vmi)
	n := newNode(t, connectLibvirt(t, d), api, api)
	guest := hypervisor.Guest{Owner: n.owner(vmi), Documents: renderDocuments(t, n, vmi)}
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
	checkEnd(t, n, reconcileRepeatedly(t, n, vmi), v1.Failed, "EndedWithHost")
}

// checkEnd compares the final phase of a VMI, its condition Ready, and its event.
func checkEnd(t *testing.T, n *Node, vmi *v1.VirtualMachineInstance, phase v1.VirtualMachineInstancePhase, reason string) {
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

func domainAction(what func(string) error) func(*testing.T, string) {
	return func(t *testing.T, domain string) {
		t.Helper()
		if err := what(domain); err != nil {
			t.Fatal(err)
		}
	}
}

// waitUntil waits up to a minute for a state that libvirt reaches by itself.
func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	if !poll.Until(time.Minute, done) {
		t.Fatalf("did not happen: %s", what)
	}
}

// TestPausedGuest: a VMI whose domain is paused is not Ready, and its conditions have the reason.
func TestPausedGuest(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	vmi := claimedVMI(t, "paused")
	paused := v1.StartStrategyPaused
	vmi.Spec.StartStrategy = &paused
	api := newClusterWithHardware(t, vmi)
	n := newNode(t, connectLibvirt(t, d), api, api)
	stands := func(want bool) {
		t.Helper()
		after := reconcileRepeatedly(t, n, vmi)
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
	domainAction(d.Resume)(t, "default_paused")
	stands(false)
	domainAction(d.Suspend)(t, "default_paused")
	stands(true)
}
