package lifecycle

import (
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestFirstStatus: the first reconcile of a new VM writes its status and delays nothing, however many VMs are new.
func TestFirstStatus(t *testing.T) {
	pins := map[string]string{v1alpha1.AnnotationPins: "{}"}
	for why, of := range map[string]struct {
		strategy    v1.VirtualMachineRunStrategy
		annotations map[string]string
		want        v1.VirtualMachinePrintableStatus
	}{
		"stopped":                            {v1.RunStrategyHalted, pins, v1.VirtualMachineStatusStopped},
		"stopped, and not pinned by webhook": {v1.RunStrategyHalted, nil, v1.VirtualMachineStatusStopped},
		"stopped until a user starts it":     {v1.RunStrategyManual, pins, v1.VirtualMachineStatusStopped},
		"to run":                             {v1.RunStrategyAlways, pins, v1.VirtualMachineStatusStarting},
	} {
		var vms []client.Object
		for i := range 40 {
			vm := newVM(of.strategy)
			vm.Name, vm.Annotations = fmt.Sprint("vm-", i), of.annotations
			vms = append(vms, vm)
		}
		c := newCluster(t, vms...)
		for _, vm := range vms {
			name := client.ObjectKeyFromObject(vm)
			result, err := c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: name})
			if err != nil || result != (ctrl.Result{}) {
				t.Fatalf("a VM that is %s: its first reconcile returns %+v, %v", why, result, err)
			}
			var stored v1.VirtualMachine
			if err := c.Get(t.Context(), name, &stored); err != nil || stored.Status.PrintableStatus != of.want {
				t.Fatalf("a VM that is %s has status '%s' after its first reconcile, want '%s': %v", why, stored.Status.PrintableStatus, of.want, err)
			}
		}
	}
}
