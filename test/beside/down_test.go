package beside

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestKilnDown: while all of Kiln is down, guests run on, stop, start, restart and migrate, and KubeVirt writes their statuses.
func TestKilnDown(t *testing.T) {
	s := newSpace(t)
	migrant, stopped, restarted := s.starts("migrant", ""), s.starts("stopped", ""), s.starts("restarted", "")
	s.vm("started", v1.RunStrategyHalted, "")
	s.ok(s.on.StopKiln())
	t.Cleanup(func() {
		if err := s.on.StartKiln(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("migrate", func(t *testing.T) {
		migrant.T = t
		migrant.migrates()
	})
	t.Run("stop", func(t *testing.T) {
		stopped.T = t
		stopped.must("stop", "stopped")
		stopped.gone("stopped")
		stopped.eventually("the status says so", func() (bool, any) {
			status := stopped.machine("stopped").Status
			return status.PrintableStatus == v1.VirtualMachineStatusStopped, status
		})
	})
	t.Run("start", func(t *testing.T) {
		s := s
		s.T = t
		s.must("start", "started")
		s.runs("started")
		s.eventually("the status says so", func() (bool, any) {
			status := s.machine("started").Status
			return status.Ready && status.PrintableStatus == v1.VirtualMachineStatusRunning, status
		})
	})
	t.Run("restart", func(t *testing.T) {
		restarted.T = t
		restarted.must("restart", "restarted")
		restarted.runs("restarted", string(restarted.was.UID))
	})
	t.Run("plug", func(t *testing.T) {
		migrant.T = t
		// An edit of a VM is its owner's, which Kiln judges: it waits for Kiln. What virt-controller does of an edit before does not.
		err := migrant.on.MergePatch(t.Context(), migrant.in("vm"), "migrant", `{"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2}}}}}}`)
		if err == nil {
			t.Error("a tenant's edit passes while Kiln is down, although failurePolicy is Fail")
		}
	})
	if refused := s.on.Refused(); len(refused) > 0 {
		t.Errorf("nodes' components were refused: %v", refused)
	}
	for _, name := range []string{"migrant", "started", "restarted"} {
		for _, condition := range s.guest(name).Status.Conditions {
			if condition.Type == v1.VirtualMachineInstanceSynchronized && condition.Status == corev1.ConditionFalse {
				t.Errorf("%s: %s", name, condition.Message)
			}
		}
	}
}
