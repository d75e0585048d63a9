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

// becomes waits until the status of the GuestPod is as it should be.
func (c *api) becomes(t *testing.T, what string, is func(v1alpha1.GuestPodStatus) bool) v1alpha1.GuestPodStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		pod, changed := c.now()
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

// TestStart: a refused start is reported and tried again, and what was reported of it goes when the guest runs.
func TestStart(t *testing.T) {
	libvirt := newHypervisor()
	l := live(t, serve(t, explicit.Plain(t, "guest")), libvirt, func(_ *guest.Guest, m *fakeMachine) {
		m.wrong = field.ErrorList{field.Invalid(field.NewPath("spec", "volumes").Index(0), "data", "is not there")}
	})
	refused := func(reason, text string) func(v1alpha1.GuestPodStatus) bool {
		return func(s v1alpha1.GuestPodStatus) bool {
			return s.Refusal != nil && s.Refusal.Reason == reason && strings.Contains(s.Refusal.Message, text) && s.Domain == nil
		}
	}
	l.becomes(t, "a refusal of the volume", refused(v1alpha1.ReasonNotBindable, "spec.volumes[0]"))
	libvirt.set(func() { libvirt.refuses = errors.New("no room for it") })
	l.machine.mutex.Lock()
	l.machine.wrong = nil
	l.machine.mutex.Unlock()
	l.becomes(t, "a refusal of libvirt", refused(v1alpha1.ReasonStartFailed, "no room for it"))
	libvirt.set(func() { libvirt.refuses = nil })
	status := l.becomes(t, "a guest that runs", in(v1alpha1.GuestRunning))
	if status.Refusal != nil || status.Facts == nil || status.Domain.Machine != "pc-q35-fake" {
		t.Errorf("the status is %+v", status)
	}
	owner := hypervisor.Owner{Cluster: "cluster", Namespace: "default", Name: "guest", UID: l.vmi.UID, Node: "here"}
	if diff := cmp.Diff(owner, libvirt.last.Owner); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
	if got := libvirt.last.Documents.Domain.Type; got != "qemu" || libvirt.kvm != hypervisor.KVMNever {
		t.Errorf("the domain is of type '%s', with KVM '%s'", got, libvirt.kvm)
	}
}

// TestStartPaused: a guest with startStrategy Paused executes nothing.
func TestStartPaused(t *testing.T) {
	vmi := explicit.Plain(t, "guest")
	paused := v1.StartStrategyPaused
	vmi.Spec.StartStrategy = &paused
	l := live(t, serve(t, vmi), newHypervisor(), nil)
	l.becomes(t, "a guest that is paused", in(v1alpha1.GuestPaused))
}

// TestWithoutKVM: where nobody asked for emulation, a pod without KVM starts nothing.
func TestWithoutKVM(t *testing.T) {
	l := live(t, serve(t, explicit.Plain(t, "guest")), newHypervisor(), func(g *guest.Guest, _ *fakeMachine) { g.Emulate = false })
	status := l.becomes(t, "a refusal", func(s v1alpha1.GuestPodStatus) bool { return s.Refusal != nil })
	if status.Refusal.Reason != v1alpha1.ReasonNotRenderable || !strings.Contains(status.Refusal.Message, "useEmulation") {
		t.Errorf("the refusal is %+v", status.Refusal)
	}
}

// TestOthersPod: a GuestPod of another pod of the VMI starts nothing, and gets no report.
func TestOthersPod(t *testing.T) {
	c := serve(t, explicit.Plain(t, "guest"))
	c.pod.Spec.PodUID = "another"
	l := live(t, c, newHypervisor(), nil)
	time.Sleep(300 * time.Millisecond)
	if pod, _ := l.now(); pod.Status.Facts != nil || len(l.libvirt.did()) > 0 {
		t.Errorf("the status is %+v, libvirt did %v", pod.Status, l.libvirt.did())
	}
	err := l.change(func(pod *v1alpha1.GuestPod) error {
		pod.Spec.PodUID = podUID
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l.becomes(t, "a guest that runs", in(v1alpha1.GuestRunning))
}

// TestEnd: how a domain ends decides the state that is reported, and whether its pod has failed.
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
			l := live(t, serve(t, explicit.Plain(t, "guest")), newHypervisor(), nil)
			l.becomes(t, "a guest that runs", in(v1alpha1.GuestRunning))
			l.libvirt.becomes("end", c.state)
			if err := l.ends(t); (err != nil) != c.failed {
				t.Errorf("the result is '%v', want a failure: %t", err, c.failed)
			}
			pod, _ := l.now()
			want := &v1alpha1.GuestDomain{State: c.want, Reason: "Fake", Message: "end", Machine: "pc-q35-fake"}
			if diff := cmp.Diff(want, pod.Status.Domain); diff != "" {
				t.Errorf("domain (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStop: a guest that is stopped may power off within its grace period; then it is destroyed. Neither is a failure.
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
		{"one that does not listen", 1, false, false, []string{"start", "destroy"}, v1alpha1.GuestDestroyed},
		{"no grace", 0, true, false, []string{"start", "destroy"}, v1alpha1.GuestDestroyed},
		{"a question that hangs lasts as long as the grace period", 1, false, true, []string{"start", "destroy"}, v1alpha1.GuestDestroyed},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			libvirt := newHypervisor()
			libvirt.obeys, libvirt.hangs = c.obeys, c.hangs
			l := live(t, serve(t, vmiOf(explicit.Plain(t, "guest"), c.grace)), libvirt, nil)
			l.becomes(t, "a guest that runs", in(v1alpha1.GuestRunning))
			l.stop()
			if err := l.ends(t); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(c.want, libvirt.did()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if pod, _ := l.now(); pod.Status.Domain.State != c.state {
				t.Errorf("the domain is %+v, want it %s", pod.Status.Domain, c.state)
			}
		})
	}
}

// TestStopSooner: a grace period that is shortened while the guest powers off ends it then, and not at the end of the longer one.
func TestStopSooner(t *testing.T) {
	c := serve(t, vmiOf(explicit.Plain(t, "guest"), 3600))
	l := live(t, c, newHypervisor(), nil)
	l.becomes(t, "a guest that runs", in(v1alpha1.GuestRunning))
	l.stop()
	time.Sleep(50 * time.Millisecond)
	c.mutex.Lock()
	c.vmi.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	c.mutex.Unlock()
	if err := l.ends(t); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"start", "destroy"}, l.libvirt.did()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestStopBeforeStart: a pod that is deleted before its guest has started ends at once, and starts nothing.
func TestStopBeforeStart(t *testing.T) {
	c := serve(t, explicit.Plain(t, "guest"))
	c.pod.Spec.PodUID = "another"
	l := live(t, c, newHypervisor(), nil)
	time.Sleep(50 * time.Millisecond)
	l.stop()
	if err := l.ends(t); err != nil || len(l.libvirt.did()) > 0 {
		t.Errorf("the result is '%v', libvirt did %v", err, l.libvirt.did())
	}
}

// TestLostAnswer: a guest that was started, and of which libvirt's answer is lost, is followed and stopped like any other.
func TestLostAnswer(t *testing.T) {
	libvirt := newHypervisor()
	libvirt.lost, libvirt.obeys = errors.New("end of file while reading data"), true
	l := live(t, serve(t, explicit.Plain(t, "guest")), libvirt, nil)
	l.becomes(t, "a guest that runs", in(v1alpha1.GuestRunning))
	l.stop()
	if err := l.ends(t); err != nil || !slices.Contains(libvirt.did(), "shutdown") {
		t.Errorf("the result is '%v', libvirt did %v", err, libvirt.did())
	}
}

// TestStopAfterLostAnswer: the same while libvirtd is away: the pod is deleted before the next attempt.
func TestStopAfterLostAnswer(t *testing.T) {
	libvirt := newHypervisor()
	libvirt.lost, libvirt.obeys = errors.New("end of file while reading data"), true
	l := live(t, serve(t, explicit.Plain(t, "guest")), libvirt, func(g *guest.Guest, _ *fakeMachine) { g.Retry = time.Hour })
	started := func() bool { return slices.Contains(libvirt.did(), "start") }
	libvirt.set(func() { libvirt.failsAfterStart = errors.New("libvirtd is being restarted") })
	for !started() {
		time.Sleep(time.Millisecond)
	}
	l.stop()
	libvirt.set(func() { libvirt.fails, libvirt.failsAfterStart = nil, nil })
	if err := l.ends(t); err != nil || !slices.Contains(libvirt.did(), "shutdown") {
		t.Errorf("the result is '%v', libvirt did %v", err, libvirt.did())
	}
	if pod, _ := l.now(); pod.Status.Domain == nil || pod.Status.Domain.State != v1alpha1.GuestPoweredOff {
		t.Errorf("the domain is reported as %+v", pod.Status.Domain)
	}
}
