package lifecycle

import (
	"testing"

	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestDeletedSinceItWasRead: the deletion of a VM is no error, whichever write finds it gone: that of its pins, or of its status.
func TestDeletedSinceItWasRead(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		c := newCluster(t, newVM(v1.RunStrategyHalted))
		if pinned {
			c.reconcileRepeatedly()
			vm := c.vm()
			vm.Status = v1.VirtualMachineStatus{}
			if err := c.Status().Update(t.Context(), vm); err != nil {
				t.Fatal(err)
			}
		}
		c.controller.ownWrites.Forget(key)
		c.freezeVMCache()
		if err := c.Delete(t.Context(), c.vm()); err != nil {
			t.Fatal(err)
		}
		if result, err := c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil || result != (ctrl.Result{}) {
			t.Errorf("pinned %t: %+v, %v", pinned, result, err)
		}
	}
}
