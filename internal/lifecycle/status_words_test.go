package lifecycle

import (
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestPrintableStatusOfHinderedGuests: a guest that does not start has KubeVirt's word in column STATUS, the message in condition Ready, and one event.
func TestPrintableStatusOfHinderedGuests(t *testing.T) {
	for reason, want := range map[string]v1.VirtualMachinePrintableStatus{
		v1alpha1.ReasonFailedPvcNotFound: "ErrorPvcNotFound", v1alpha1.ReasonFailedDataVolumeImport: "DataVolumeError",
		v1alpha1.ReasonProvisioning: "Provisioning", v1alpha1.ReasonWaitingForVolumeBinding: "WaitingForVolumeBinding",
		v1alpha1.ReasonUnschedulable: "ErrorUnschedulable", v1alpha1.ReasonFailedCreate: "ErrorUnschedulable",
		v1alpha1.ReasonNotPlaceable: "ErrorUnschedulable", v1alpha1.ReasonErrImagePull: "ErrImagePull", v1alpha1.ReasonErrImageNeverPull: "ErrImagePull",
		v1alpha1.ReasonImagePullBackOff: "ImagePullBackOff", v1alpha1.ReasonStartFailed: "CrashLoopBackOff", v1alpha1.ReasonNotBindable: "CrashLoopBackOff",
		v1alpha1.ReasonPodStarting: "Starting",
	} {
		c := newCluster(t, newVM(v1.RunStrategyAlways))
		c.reconcileRepeatedly()
		vmi := c.vmi()
		condition.SetRefused(vmi, condition.Cause{Reason: reason, Message: "why"})
		if err := c.Status().Update(t.Context(), vmi); err != nil {
			t.Fatal(err)
		}
		c.reconcileRepeatedly()
		c.reconcileRepeatedly()
		vm := c.vm()
		if ready := conditionOf(vm, v1.VirtualMachineReady); vm.Status.PrintableStatus != want || ready.Reason != reason || ready.Message != "why" {
			t.Errorf("%s: STATUS %s, want %s; Ready %+v", reason, vm.Status.PrintableStatus, want, ready)
		}
		var recorded []string
		for len(c.eventRecorder().Events) > 0 {
			recorded = append(recorded, <-c.eventRecorder().Events)
		}
		if warnings := slices.DeleteFunc(recorded, func(event string) bool { return !strings.HasPrefix(event, "Warning") }); len(warnings) != 1 ||
			warnings[0] != "Warning "+reason+" why" {
			t.Errorf("%s: events %q", reason, warnings)
		}
	}
}

// TestStatusWithoutAGuest: a VM whose VMI cannot be created is not starting.
func TestStatusWithoutAGuest(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "missing", Kind: "VirtualMachineClusterInstancetype"}
	c := newCluster(t, vm)
	c.reconcileRepeatedly()
	failure, ready := conditionOf(c.vm(), v1.VirtualMachineFailure), conditionOf(c.vm(), v1.VirtualMachineReady)
	if got := c.vm().Status.PrintableStatus; got != v1.VirtualMachineStatusStopped || failure.Reason != v1alpha1.ReasonFailedFindInstancetype {
		t.Errorf("STATUS %s, Failure %+v", got, failure)
	}
	if ready.Status != "False" || ready.Reason != failure.Reason || ready.Message != failure.Message {
		t.Errorf("Ready is %+v, want what Failure says", ready)
	}
}

// TestReadySaysWhere: condition Ready of a VM names the node of its guest, which no field of a VM has.
func TestReadySaysWhere(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	vmi := c.vmi()
	vmi.Status.NodeName = "n1"
	condition.SetRunning(vmi)
	if err := c.Status().Update(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	c.reconcileRepeatedly()
	if ready := conditionOf(c.vm(), v1.VirtualMachineReady); ready.Status != corev1.ConditionTrue || ready.Message != "the guest runs on node 'n1'" {
		t.Errorf("Ready is %+v", ready)
	}
}
