package node

import (
	"context"
	"errors"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/render"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// guestHardware returns the GuestHardware of the VMI.
func guestHardware(t *testing.T, cluster client.Reader, vmi *v1.VirtualMachineInstance) *v1alpha1.GuestHardware {
	t.Helper()
	found := &v1alpha1.GuestHardware{}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(vmi), found); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestRunningHardware: while a guest runs, status.running of its GuestHardware has the running hardware with digest, cause and time.
func TestRunningHardware(t *testing.T) {
	t.Parallel()
	vmi := claimedVMI(t, "runs")
	cluster := newClusterWithHardware(t, vmi)
	n, libvirt := newFakeNode(t, cluster)
	reconcileRepeatedly(t, n, vmi)
	text, err := n.Machine.ReadFile(vmi, frontendFile)
	if err != nil {
		t.Fatal(err)
	}
	front, err := render.ReadFrontend(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := guestHardware(t, cluster, vmi).Status.Running; got != nil {
		t.Errorf("before libvirt runs anything, %+v does", got)
	}
	libvirt.hardware = hypervisor.Hardware{VCPUs: front.VCPU.Value, MemoryKiB: uint64(front.Memory.Value)}
	reconcileRepeatedly(t, n, vmi)
	hardware := guestHardware(t, cluster, vmi)
	booted := hardware.Status.Running
	if booted == nil || booted.UID != vmi.UID || booted.Digest != hardware.Spec.Hardware.Digest || booted.Cause != render.CauseStarted || booted.Time.IsZero() {
		t.Fatalf("after the start %+v runs, the record is %+v", booted, hardware.Spec.Hardware)
	}
	reconcileRepeatedly(t, n, vmi)
	if again := guestHardware(t, cluster, vmi); again.ResourceVersion != hardware.ResourceVersion {
		t.Error("the same hardware is written again")
	}
	libvirt.hardware.VCPUs++
	reconcileRepeatedly(t, n, vmi)
	changed := guestHardware(t, cluster, vmi).Status.Running
	if changed.Digest == booted.Digest || changed.Cause != "vCPUs from 1 to 2" || changed.VCPUs != 2 {
		t.Errorf("after a change %+v runs", changed)
	}
	libvirt.domains["default_runs"] = hypervisor.Status{State: hypervisor.PoweredOff}
	if after := reconcileRepeatedly(t, n, vmi); !after.IsFinal() || guestHardware(t, cluster, vmi).Status.Running != nil {
		t.Errorf("after the end the phase is '%s', and %+v runs", after.Status.Phase, guestHardware(t, cluster, vmi).Status.Running)
	}
}

// TestRunningHardwareNotWritten: a VMI gets its phase although its domain has ended meanwhile, its GuestHardware belongs to another guest, or the roles are
// old.
func TestRunningHardwareNotWritten(t *testing.T) {
	t.Parallel()
	vmi := claimedVMI(t, "runs")
	vmi.Status.Phase = v1.Running
	forbidden := func(ctx context.Context, c client.Client, name string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "guesthardwares"}, "runs", errors.New("old roles"))
	}
	cluster := interceptor.NewClient(newClusterWithHardware(t, vmi).(client.WithWatch), interceptor.Funcs{SubResourcePatch: forbidden})
	n, libvirt := newFakeNode(t, cluster)
	libvirt.domains["default_runs"] = hypervisor.Status{State: hypervisor.Running}
	other := func(*v1alpha1.HardwareRunning) *v1alpha1.HardwareRunning {
		return &v1alpha1.HardwareRunning{Digest: "d"}
	}
	if err := n.patchRunning(t.Context(), vmi, other); err != nil {
		t.Errorf("old roles: %v", err)
	}
	stranger := vmi.DeepCopy()
	stranger.UID = "another"
	n.Client = interceptor.NewClient(n.Client.(client.WithWatch), interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object,
		client.Patch, ...client.SubResourcePatchOption) error {
		t.Error("another guest's GuestHardware is written")
		return nil
	}})
	if err := n.patchRunning(t.Context(), stranger, other); err != nil {
		t.Errorf("another guest's GuestHardware: %v", err)
	}
	if after := reconcileRepeatedly(t, n, vmi); after.Status.Phase != v1.Running {
		t.Errorf("the phase is '%s'", after.Status.Phase)
	}
}
