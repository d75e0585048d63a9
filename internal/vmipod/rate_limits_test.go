package vmipod

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestStatusesAreBounded: a launcher that reports another state each moment costs a bounded number of statuses, and the last one is written.
func TestStatusesAreBounded(t *testing.T) {
	c := newCluster(t, explicitVMI())
	c.runGuest()
	c.writes = nil
	for i := range 100 {
		c.reportDomain([]v1alpha1.GuestDomainState{v1alpha1.GuestPaused, v1alpha1.GuestRunning}[i%2], "PausedByUser")
		c.reconcileAll()
	}
	c.reportDomain(v1alpha1.GuestPaused, "PausedByUser")
	result := c.reconcileAll()
	if len(c.writes) > statusBurst || result.RequeueAfter <= 0 {
		t.Errorf("%d statuses within a second, again after %s", len(c.writes), result.RequeueAfter)
	}
	c.now = c.now.Add(result.RequeueAfter)
	c.reconcileAll()
	if status, _ := c.readCondition(v1.VirtualMachineInstancePaused); status != corev1.ConditionTrue {
		t.Error("the last state is not in the status")
	}
}
