package node

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/hypervisor"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// silentAfterStart is a libvirt that starts a domain, and does not report its state afterwards.
type silentAfterStart struct{ *fakeHypervisor }

func (s silentAfterStart) State(ctx context.Context, owner hypervisor.Owner) (hypervisor.Status, error) {
	status, err := s.fakeHypervisor.State(ctx, owner)
	if status.State == hypervisor.Running {
		return hypervisor.Status{}, errors.New("libvirt is silent")
	}
	return status, err
}

// TestStateUnknownAfterStart: a domain with unknown state does not change the VMI's phase. The zero Status must not be reported.
func TestStateUnknownAfterStart(t *testing.T) {
	t.Parallel()
	vmi := claimedVMI(t, "guest")
	n, libvirt := newFakeNode(t, newClusterWithHardware(t, vmi))
	n.Hypervisor = silentAfterStart{libvirt}
	_, err := n.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vmi)})
	after := &v1.VirtualMachineInstance{}
	if err := n.Get(t.Context(), client.ObjectKeyFromObject(vmi), after); err != nil {
		t.Fatal(err)
	}
	if len(libvirt.calls) != 1 || libvirt.calls[0] != "start" {
		t.Fatalf("libvirt got the calls %q, want one start", libvirt.calls)
	}
	reported := conditionOf(after, v1.VirtualMachineInstanceSynchronized).Message
	if err != nil {
		reported += err.Error()
	}
	if after.Status.Phase != v1.Scheduled || !strings.Contains(reported, "libvirt is silent") {
		t.Errorf("phase '%s', reported %q; want Scheduled, and what libvirt answered", after.Status.Phase, reported)
	}
}

// TestNoEffect: a start records one event that names exactly the fields of its VMI that have no effect on a bare machine.
func TestNoEffect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why    string
		spec   func(*v1.VirtualMachineInstanceSpec)
		events string
	}{
		{"nothing to say", func(*v1.VirtualMachineInstanceSpec) {}, ""},
		{"fields of pods", func(spec *v1.VirtualMachineInstanceSpec) { spec.PriorityClassName, spec.Subdomain = "high", "shop" },
			"Warning NoEffect spec.priorityClassName has no effect: launchers claim VMIs by nodeSelector alone; spec.subdomain has no effect: " +
				"QEMU's NAT passes on the DNS servers of the machine"},
	} {
		t.Run(c.why, func(t *testing.T) {
			vmi := claimedVMI(t, "guest")
			c.spec(&vmi.Spec)
			n, libvirt := newFakeNode(t, newClusterWithHardware(t, vmi))
			for range 2 { // the second one finds the domain
				if _, err := n.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vmi)}); err != nil {
					t.Fatal(err)
				}
			}
			if len(libvirt.calls) != 1 {
				t.Fatalf("libvirt got the calls %q, want one start", libvirt.calls)
			}
			recorder := n.Events.(*events.FakeRecorder)
			var got []string
			for len(recorder.Events) > 0 {
				if event := <-recorder.Events; strings.Contains(event, "NoEffect") {
					got = append(got, event)
				}
			}
			if strings.Join(got, "\n") != c.events {
				t.Errorf("events %q, want %q", got, c.events)
			}
		})
	}
}
