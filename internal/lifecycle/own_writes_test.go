package lifecycle

import (
	"context"
	"testing"
	"time"

	"github.com/kilnvm/kiln/internal/ownwrite"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// freezeVMCache makes the controller's cache return the current VM until thaw is called.
func (c *testCluster) freezeVMCache() (thaw func()) {
	old, frozen := c.vm(), true
	c.controller.Client = interceptor.NewClient(c.controller.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, from client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if vm, is := object.(*v1.VirtualMachine); is && frozen {
				old.DeepCopyInto(vm)
				return nil
			}
			return from.Get(ctx, key, object, options...)
		},
	})
	return func() { frozen = false }
}

// reconcileVM reconciles once. It returns how many statuses were written and the time after which the VM is reconciled again.
func (c *testCluster) reconcileVM() (statuses int, after time.Duration) {
	c.Helper()
	before := c.vm().ResourceVersion
	result, err := c.controller.Reconcile(c.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		c.Fatal(err)
	}
	if c.vm().ResourceVersion != before {
		statuses++
	}
	return statuses, result.RequeueAfter
}

// TestStatusIsNotWrittenTwice: the event of the VMI reconciles the VM before the event of its status has arrived.
func TestStatusIsNotWrittenTwice(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	thaw := c.freezeVMCache()
	for _, step := range []struct {
		why      string
		later    time.Duration
		do       func()
		statuses int
		after    time.Duration
	}{
		{"the VMI is created", 0, func() {}, 1, 0},
		{"the cache has the VM without its status", 0, func() {}, 0, conflictRetry},
		{"and has it still", ownwrite.Arrives - time.Millisecond, func() {}, 0, conflictRetry},
		{"the event has arrived, and the VMI runs", 0, func() { thaw(); c.setPhase(v1.Running) }, 1, 0},
		{"nothing is new", 0, func() {}, 0, 0},
	} {
		c.now = c.now.Add(step.later)
		step.do()
		if statuses, after := c.reconcileVM(); statuses != step.statuses || after != step.after {
			t.Errorf("%s: %d statuses, again after %s; want %d, %s", step.why, statuses, after, step.statuses, step.after)
		}
	}
	if n := c.controller.ownWrites.Len(); n != 0 {
		t.Errorf("%d versions are remembered after their events", n)
	}
}
