package lifecycle

import (
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

// TestNoStartWhileRestored: template, record and claims of a VM that is being restored are of two moments. It starts when the restore is done.
func TestNoStartWhileRestored(t *testing.T) {
	for _, strategy := range []v1.VirtualMachineRunStrategy{v1.RunStrategyAlways, v1.RunStrategyRerunOnFailure, v1.RunStrategyOnce} {
		vm := newVM(strategy)
		name := "back"
		vm.Status.RestoreInProgress = &name
		c := newCluster(t, vm)
		c.reconcileRepeatedly()
		if c.vmi() != nil || c.vm().Status.PrintableStatus != v1.VirtualMachineStatusStopped {
			t.Errorf("%s: started while it is restored, status '%s'", strategy, c.vm().Status.PrintableStatus)
		}
		done := c.vm()
		done.Status.RestoreInProgress = nil
		if err := c.Status().Update(t.Context(), done); err != nil {
			t.Fatal(err)
		}
		if c.reconcileRepeatedly(); c.vmi() == nil {
			t.Errorf("%s: the VM does not start after the restore", strategy)
		}
	}
}
