package guestdiff

import (
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/render"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestRunningState: state 4 is what libvirt reports, with its own digest, cause and time, and says what the VMI asks for beside it.
func TestRunningState(t *testing.T) {
	t.Parallel()
	known, err := crdschema.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	bench := &workbench.Bench{}
	vm := stored(t, bench, "", "")
	side := Side{Reviewed: vm}
	if _, err := renderSide(t.Context(), bench, &side, nil); err != nil {
		t.Fatal(err)
	}
	front, recorded := side.rendered.Frontend, side.rendered.Record
	text, err := front.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	boot := metav1.NewTime(time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC))
	grown := metav1.NewTime(boot.Add(time.Hour))
	live := render.BootedHardware(front)
	live.VCPUs++
	hardware := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1alpha1.GuestHardwareSpec{Hardware: &recorded},
		Status: v1alpha1.GuestHardwareStatus{VirtualMachineUID: "of-the-vm", Boots: 1,
			LastBoot: &v1alpha1.HardwareBoot{UID: "of-the-vmi", Digest: recorded.Digest, Time: boot},
			Running: &v1alpha1.HardwareRunning{LiveHardware: live, UID: "of-the-vmi", Digest: abi.Digest(render.WithLive(front, live)), Cause: "vCPUs from 1 to 2",
				Time: grown}}}
	pod := &v1alpha1.GuestPod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: v1alpha1.GuestPodSpec{VMIUID: "of-the-vmi", Hardware: &v1alpha1.GuestPodHardware{Frontend: text}}}
	vm.Guest.Recorded = &recorded
	for _, c := range []struct {
		sockets uint32
		open    string
	}{{1, "vCPUs from 2 to 1"}, {2, ""}, {3, "vCPUs from 2 to 3"}} {
		vmi := vmiOf(t, bench, vm)
		vmi.Guest.Explicit.Spec.Domain.CPU.Sockets = c.sockets
		states, _, err := States(t.Context(), bench, fake.NewClientBuilder().WithScheme(known).WithObjects(hardware, pod).Build(), VMWithVMI{vm, vmi})
		if err != nil {
			t.Fatal(err)
		}
		s := states[StateRunning-1]
		if s.Digest != hardware.Status.Running.Digest || s.Cause != "vCPUs from 1 to 2" || !s.Time.Equal(&grown) || s.Open != c.open || s.Hidden {
			t.Errorf("%d sockets: state 4 is %+v", c.sockets, s)
		}
		if same := states[StateVMI-1].Digest == s.Digest; same != (c.open == "") {
			t.Errorf("%d sockets: state 3 has digest %s, state 4 %s", c.sockets, states[StateVMI-1].Digest, s.Digest)
		}
		if states[StateRecord-1].Digest != recorded.Digest {
			t.Errorf("the record has moved to %s", states[StateRecord-1].Digest)
		}
		if xml, err := s.Document("xml"); err != nil || !strings.Contains(xml, `current="2"`) {
			t.Errorf("state 4 as XML: %v\n%s", err, xml)
		}
	}
}
