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
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// waitForStatus waits until is returns true for the status of the GuestPod.
func (c *fakeAPIServer) waitForStatus(t *testing.T, what string, is func(v1alpha1.GuestPodStatus) bool) v1alpha1.GuestPodStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		pod, changed := c.currentPod()
		if is(pod.Status) {
			return pod.Status
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("want %s; domain %+v, refusal %+v", what, pod.Status.Domain, pod.Status.Refusal)
		}
	}
}

// TestStart: a refused start is reported and repeated, and the refusal is removed when the guest runs.
func TestStart(t *testing.T) {
	libvirt := newFakeHypervisor()
	l := startTestGuest(t, serveVMI(t, explicit.Plain(t, "guest")), libvirt, func(_ *guest.Guest, m *fakeMachine) {
		m.bindErrors = field.ErrorList{field.Invalid(field.NewPath("spec", "volumes").Index(0), "data", "is not there")}
	})
	refused := func(reason, text string) func(v1alpha1.GuestPodStatus) bool {
		return func(s v1alpha1.GuestPodStatus) bool {
			return s.Refusal != nil && s.Refusal.Reason == reason && strings.Contains(s.Refusal.Message, text) && s.Domain == nil
		}
	}
	l.waitForStatus(t, "a refusal of the volume", refused(v1alpha1.ReasonNotBindable, "spec.volumes[0]"))
	libvirt.update(func() { libvirt.startErr = errors.New("no room for it") })
	l.machine.mutex.Lock()
	l.machine.bindErrors = nil
	l.machine.mutex.Unlock()
	l.waitForStatus(t, "a refusal of libvirt", refused(v1alpha1.ReasonStartFailed, "no room for it"))
	libvirt.update(func() { libvirt.startErr = nil })
	status := l.waitForStatus(t, "a guest that runs", inState(v1alpha1.GuestRunning))
	if status.Refusal != nil || status.Facts == nil || status.Domain.Machine != "pc-q35-fake" {
		t.Errorf("the status is %+v", status)
	}
	owner := hypervisor.Owner{Cluster: "cluster", Namespace: "default", Name: "guest", UID: l.vmi.UID, Node: "here"}
	if diff := cmp.Diff(owner, libvirt.lastStarted.Owner); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
	if got := libvirt.lastStarted.Documents.Domain.Type; got != "qemu" || libvirt.kvm != hypervisor.KVMNever {
		t.Errorf("the domain is of type '%s', with KVM '%s'", got, libvirt.kvm)
	}
}

// TestStartPaused: a guest with startStrategy Paused is paused from its start.
func TestStartPaused(t *testing.T) {
	vmi := explicit.Plain(t, "guest")
	paused := v1.StartStrategyPaused
	vmi.Spec.StartStrategy = &paused
	l := startTestGuest(t, serveVMI(t, vmi), newFakeHypervisor(), nil)
	l.waitForStatus(t, "a guest that is paused", inState(v1alpha1.GuestPaused))
}

// TestWithoutKVM: without Emulate a pod without KVM does not start its guest.
func TestWithoutKVM(t *testing.T) {
	l := startTestGuest(t, serveVMI(t, explicit.Plain(t, "guest")), newFakeHypervisor(), func(g *guest.Guest, _ *fakeMachine) { g.Emulate = false })
	status := l.waitForStatus(t, "a refusal", func(s v1alpha1.GuestPodStatus) bool { return s.Refusal != nil })
	if status.Refusal.Reason != v1alpha1.ReasonNotRenderable || !strings.Contains(status.Refusal.Message, "useEmulation") {
		t.Errorf("the refusal is %+v", status.Refusal)
	}
}

// TestOthersPod: a launcher neither starts the guest for the GuestPod of another pod of the VMI, nor reports to it.
func TestOthersPod(t *testing.T) {
	c := serveVMI(t, explicit.Plain(t, "guest"))
	c.pod.Spec.PodUID = "another"
	l := startTestGuest(t, c, newFakeHypervisor(), nil)
	l.libvirt.waitUntil(t, "the launcher has read the capabilities", func() bool { return l.libvirt.kvm != "" })
	c.waitUntil(t, "the launcher's watch has sent the GuestPod", func() bool { return c.watchedUID != "" })
	if pod, _ := l.currentPod(); pod.Status.Facts != nil || len(l.libvirt.recordedCalls()) > 0 {
		t.Errorf("the status is %+v, libvirt did %v", pod.Status, l.libvirt.recordedCalls())
	}
	err := l.changePod(func(pod *v1alpha1.GuestPod) error {
		pod.Spec.PodUID = podUID
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l.waitForStatus(t, "a guest that runs", inState(v1alpha1.GuestRunning))
}

// TestEnd: the end of a domain determines the reported state, and whether the pod fails.
func TestEnd(t *testing.T) {
	for _, c := range []struct {
		state  hypervisor.State
		want   v1alpha1.GuestDomainState
		failed bool
	}{
		{hypervisor.PoweredOff, v1alpha1.GuestPoweredOff, false}, {hypervisor.Destroyed, v1alpha1.GuestDestroyed, true},
		{hypervisor.Failed, v1alpha1.GuestFailed, true}, {hypervisor.Inactive, v1alpha1.GuestFailed, true}, {hypervisor.Undefined, v1alpha1.GuestFailed, true},
	} {
		t.Run(string(c.want), func(t *testing.T) {
			t.Parallel()
			l := startTestGuest(t, serveVMI(t, explicit.Plain(t, "guest")), newFakeHypervisor(), nil)
			l.waitForStatus(t, "a guest that runs", inState(v1alpha1.GuestRunning))
			l.libvirt.setState("end", c.state)
			if err := l.waitForEnd(t); (err != nil) != c.failed {
				t.Errorf("the result is '%v', want a failure: %t", err, c.failed)
			}
			pod, _ := l.currentPod()
			want := &v1alpha1.GuestDomain{State: c.want, Reason: "Fake", Message: "end", Machine: "pc-q35-fake"}
			if diff := cmp.Diff(want, pod.Status.Domain); diff != "" {
				t.Errorf("domain (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStop: a stopped guest may power off within its grace period; then it is destroyed. Neither is a failure.
func TestStop(t *testing.T) {
	for _, c := range []struct {
		why   string
		grace int64
		obeys bool
		hangs bool
		want  []string
		state v1alpha1.GuestDomainState
	}{
		{"an obedient guest", 60, true, false, []string{"start", "shutdown"}, v1alpha1.GuestPoweredOff},
		{"a guest that ignores the power button", 1, false, false, []string{"start", "destroy"}, v1alpha1.GuestDestroyed},
		{"no grace", 0, true, false, []string{"start", "destroy"}, v1alpha1.GuestDestroyed},
		{"a question that hangs lasts as long as the grace period", 1, false, true, []string{"start", "destroy"}, v1alpha1.GuestDestroyed},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			libvirt := newFakeHypervisor()
			libvirt.powersOff, libvirt.shutdownHangs = c.obeys, c.hangs
			l := startTestGuest(t, serveVMI(t, withGracePeriod(explicit.Plain(t, "guest"), c.grace)), libvirt, nil)
			l.waitForStatus(t, "a guest that runs", inState(v1alpha1.GuestRunning))
			l.stop()
			if err := l.waitForEnd(t); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(c.want, libvirt.recordedCalls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if pod, _ := l.currentPod(); pod.Status.Domain.State != c.state {
				t.Errorf("the domain is %+v, want it %s", pod.Status.Domain, c.state)
			}
		})
	}
}

// TestStopSooner: if the grace period is shortened while the guest powers off, the guest is destroyed at the end of the shorter one.
func TestStopSooner(t *testing.T) {
	c := serveVMI(t, withGracePeriod(explicit.Plain(t, "guest"), 3600))
	l := startTestGuest(t, c, newFakeHypervisor(), nil)
	l.waitForStatus(t, "a guest that runs", inState(v1alpha1.GuestRunning))
	l.stop()
	c.waitUntil(t, "the launcher has read the VMI at the start and at the stop", func() bool { return c.vmiReads == 2 })
	c.mutex.Lock()
	c.vmi.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	c.mutex.Unlock()
	if err := l.waitForEnd(t); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"start", "destroy"}, l.libvirt.recordedCalls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestStopBeforeStart: a pod that is deleted before the start of its guest ends at once, and does not start the guest.
func TestStopBeforeStart(t *testing.T) {
	c := serveVMI(t, explicit.Plain(t, "guest"))
	c.pod.Spec.PodUID = "another"
	l := startTestGuest(t, c, newFakeHypervisor(), nil)
	c.waitUntil(t, "the launcher's watch has sent the GuestPod", func() bool { return c.watchedUID != "" })
	l.stop()
	if err := l.waitForEnd(t); err != nil || len(l.libvirt.recordedCalls()) > 0 {
		t.Errorf("the result is '%v', libvirt did %v", err, l.libvirt.recordedCalls())
	}
}

// TestLostAnswer: if libvirt's answer to a start is lost, the guest is followed and stopped like any other.
func TestLostAnswer(t *testing.T) {
	libvirt := newFakeHypervisor()
	libvirt.lostAnswerErr, libvirt.powersOff = errors.New("end of file while reading data"), true
	l := startTestGuest(t, serveVMI(t, explicit.Plain(t, "guest")), libvirt, nil)
	l.waitForStatus(t, "a guest that runs", inState(v1alpha1.GuestRunning))
	l.stop()
	if err := l.waitForEnd(t); err != nil || !slices.Contains(libvirt.recordedCalls(), "shutdown") {
		t.Errorf("the result is '%v', libvirt did %v", err, libvirt.recordedCalls())
	}
}

// TestStopAfterLostAnswer: if libvirt's answer to a start is lost, and the pod is deleted before the next attempt, the guest is shut down.
func TestStopAfterLostAnswer(t *testing.T) {
	libvirt := newFakeHypervisor()
	libvirt.lostAnswerErr, libvirt.powersOff = errors.New("end of file while reading data"), true
	l := startTestGuest(t, serveVMI(t, explicit.Plain(t, "guest")), libvirt, func(g *guest.Guest, _ *fakeMachine) { g.Retry = time.Hour })
	libvirt.update(func() { libvirt.stateErrAfterStart = errors.New("libvirtd is being restarted") })
	libvirt.waitUntil(t, "the guest is started", func() bool { return slices.Contains(libvirt.calls, "start") })
	l.stop()
	libvirt.update(func() { libvirt.stateErr, libvirt.stateErrAfterStart = nil, nil })
	if err := l.waitForEnd(t); err != nil || !slices.Contains(libvirt.recordedCalls(), "shutdown") {
		t.Errorf("the result is '%v', libvirt did %v", err, libvirt.recordedCalls())
	}
	if pod, _ := l.currentPod(); pod.Status.Domain == nil || pod.Status.Domain.State != v1alpha1.GuestPoweredOff {
		t.Errorf("the domain is reported as %+v", pod.Status.Domain)
	}
}
