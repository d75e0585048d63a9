package snapshots

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newForbidden(of client.Object, why string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: fmt.Sprintf("%T", of)}, of.GetName(), fmt.Errorf("%s", why))
}

// forceDelete deletes an object without running its finalizers.
func (c *cluster) forceDelete(object client.Object) {
	c.Helper()
	if err := c.Get(c.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		c.must(client.IgnoreNotFound(err))
		return
	}
	object.SetFinalizers(nil)
	c.must(c.Update(c.Context(), object))
	c.must(client.IgnoreNotFound(c.WithWatch.Delete(c.Context(), object)))
}

// checkPair reports whether the VM has the spec and the hardware of the snapshot. It fails the test if the VM has only one of them, or is locked.
func (c *cluster) checkPair(when string, specOf func(*v1.VirtualMachine) bool) (restored bool) {
	c.Helper()
	vm := c.vm("web")
	spec, hardware := specOf(vm), cmp.Equal(testHardware().Spec, c.hardware("web").Spec)
	if spec != hardware || vm.Status.RestoreInProgress != nil || vm.Status.SnapshotInProgress != nil || len(vm.Finalizers) > 0 ||
		vm.Annotations[v1alpha1.AnnotationRecord] != "" {
		c.Errorf("%s: the spec is restored %t, the hardware %t: %+v %v", when, spec, hardware, vm.Status, vm.ObjectMeta)
	}
	return spec
}

// TestPairs: whenever the process dies, and whatever is deleted meanwhile, a VM that may start has spec and hardware of one moment.
func TestPairs(t *testing.T) {
	snapshots := func(c *cluster) {
		c.forceDelete(snapshotOf("s"))
		c.forceDelete(&api.VirtualMachineSnapshotContent{ObjectMeta: snapshotOf(operation.ContentName("snap-1")).ObjectMeta})
	}
	for why, meanwhile := range map[string]func(*cluster){
		"nothing goes": func(*cluster) {},
		"the restore is deleted": func(c *cluster) {
			c.must(client.IgnoreNotFound(c.WithWatch.Delete(c.Context(), restoreOf("r", "web"))))
		},
		"the restore goes":        func(c *cluster) { c.forceDelete(restoreOf("r", "web")) },
		"the snapshot goes":       snapshots,
		"both go":                 func(c *cluster) { snapshots(c); c.forceDelete(restoreOf("r", "web")) },
		"the owner edits, and so": func(c *cluster) { vm := c.vm("web"); vm.Labels["a"] = "b"; c.must(c.Update(c.Context(), vm)) },
	} {
		outcomes := map[bool]int{}
		life := func(dies int) int {
			c := newCluster(t, nil, testObjects()...)
			before := c.vm("web")
			c.must(c.Create(t.Context(), snapshotOf("s")))
			c.reconcileAll()
			c.editVM()
			first := len(c.writes)
			c.dieAfter, c.whileDead = dies, func() { meanwhile(c) }
			c.must(c.Create(t.Context(), restoreOf("r", "web")))
			c.reconcileAll()
			outcomes[c.checkPair(fmt.Sprintf("%s after write %d", why, dies), func(vm *v1.VirtualMachine) bool { return cmp.Equal(before.Spec, vm.Spec) })]++
			return len(c.writes) - first
		}
		writes := life(0)
		for dies := range writes {
			life(dies + 1)
		}
		if wantBoth := !strings.HasPrefix(why, "nothing") && !strings.HasPrefix(why, "the owner"); (outcomes[false] > 0) != wantBoth || outcomes[true] < 2 {
			t.Errorf("%s: %v", why, outcomes)
		}
	}
}

// TestRefusedLate: if admission refuses a write although it accepted the dry run, the restore fails and changes nothing, or waits and reports the reason.
func TestRefusedLate(t *testing.T) {
	for why, test := range map[string]struct {
		refuses func(client.Object) bool
		fails   bool
	}{
		"the VM": {func(of client.Object) bool {
			_, is := of.(*v1.VirtualMachine)
			return is && of.GetAnnotations()[snapshot.Mark] != ""
		}, true},
		"the hardware": {func(of client.Object) bool { _, is := of.(*v1alpha1.GuestHardware); return is }, false},
	} {
		c := newCluster(t, nil, testObjects()...)
		before := c.vm("web")
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.reconcileAll()
		c.editVM()
		c.refuseWrite = func(of client.Object) error {
			if test.refuses(of) {
				return newForbidden(of, "a policy came meanwhile")
			}
			return nil
		}
		c.must(c.Create(t.Context(), restoreOf("r", "web")))
		c.reconcileAll()
		of := readObject(c, "r", &api.VirtualMachineRestore{}).Status
		ready := operation.FindCondition(of.Conditions, api.ConditionReady)
		if operation.HasFailed(of.Conditions) != test.fails || ready.Reason != v1alpha1.ReasonNotAdmitted ||
			!strings.Contains(ready.Message, "a policy came meanwhile") || !c.hasEvent(v1alpha1.ReasonNotAdmitted) {
			t.Errorf("%s: %+v", why, of)
		}
		if held := c.vm("web").Status.RestoreInProgress != nil; held == test.fails {
			t.Errorf("%s: held %t", why, held)
		}
		c.refuseWrite = nil
		c.reconcileAll()
		if c.checkPair(why, func(vm *v1.VirtualMachine) bool { return cmp.Equal(before.Spec, vm.Spec) }) == test.fails {
			t.Errorf("%s: the restore ends with the wrong pair: %+v", why, readObject(c, "r", &api.VirtualMachineRestore{}).Status)
		}
	}
}

// TestRefusedTarget: if a new VM is refused after its GuestHardware was written, the GuestHardware is deleted.
func TestRefusedTarget(t *testing.T) {
	c := newCluster(t, nil, testObjects()...)
	vm := c.vm("web")
	vm.Spec.Template.Spec.Volumes, vm.Spec.Template.Spec.Domain.Devices.Disks = nil, nil
	c.must(c.Update(t.Context(), vm))
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll()
	c.refuseWrite = func(of client.Object) error {
		if _, is := of.(*v1.VirtualMachine); is && of.GetName() == "two" {
			return newForbidden(of, "no")
		}
		return nil
	}
	c.must(c.Create(t.Context(), restoreOf("r", "two")))
	c.reconcileAll()
	made := false
	for _, write := range c.writes {
		made = made || write == "create *v1alpha1.GuestHardware two"
	}
	if !operation.HasFailed(readObject(c, "r", &api.VirtualMachineRestore{}).Status.Conditions) || !made || c.hardware("two") != nil {
		t.Errorf("%v %+v", c.writes, c.hardware("two"))
	}
}

// TestQuota: a claim or a VolumeSnapshot that a quota refuses is created when the quota allows it. Meanwhile the reason is reported.
func TestQuota(t *testing.T) {
	c := newCluster(t, withVolumeSnapshots, storageObjects()...)
	kind := "VolumeSnapshot"
	c.refuseWrite = func(of client.Object) error {
		if _, claim := of.(*corev1.PersistentVolumeClaim); of.GetObjectKind().GroupVersionKind().Kind == kind || claim && kind == "claim" {
			return newForbidden(of, "exceeded quota: few")
		}
		return nil
	}
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll(c.runDriver)
	progressing := operation.FindCondition(readObject(c, "s", &api.VirtualMachineSnapshot{}).Status.Conditions, api.ConditionProgressing)
	if progressing.Reason != v1alpha1.ReasonNotAdmitted || !strings.Contains(progressing.Message, "exceeded quota: few") ||
		!c.hasEvent(v1alpha1.ReasonNotAdmitted) {
		t.Errorf("%+v", progressing)
	}
	kind = "claim"
	c.reconcileAll(c.runDriver)
	c.must(c.Create(t.Context(), restoreOf("r", "web")))
	c.reconcileAll(c.runDriver)
	ready := operation.FindCondition(readObject(c, "r", &api.VirtualMachineRestore{}).Status.Conditions, api.ConditionReady)
	if ready.Reason != v1alpha1.ReasonNotAdmitted || !strings.Contains(ready.Message, "exceeded quota: few") || !c.hasEvent(v1alpha1.ReasonNotAdmitted) {
		t.Errorf("%+v", ready)
	}
	kind = "none"
	c.reconcileAll(c.runDriver)
	if of := readObject(c, "r", &api.VirtualMachineRestore{}).Status; !*of.Complete {
		t.Errorf("%+v", of)
	}
}

// TestChecksPrecedeTheStop: a restore that fails, or waits for its snapshot, does not stop the guest.
func TestChecksPrecedeTheStop(t *testing.T) {
	for why, test := range map[string]struct {
		change func(*cluster)
		fails  bool
	}{
		"a network is gone":         {func(c *cluster) { c.must(c.Delete(c.Context(), testNetwork())) }, true},
		"the claim's name is taken": {func(c *cluster) { c.must(c.Create(c.Context(), testClaim("restore-r-1-root"))) }, true},
		"admission refuses": {func(c *cluster) {
			c.refuseVM = func(vm *v1.VirtualMachine) error {
				if vm.Annotations[snapshot.Mark] == "" {
					return nil
				}
				return newForbidden(vm, "no")
			}
		}, true},
		"the snapshot is not there": {func(c *cluster) { c.forceDelete(snapshotOf("s")) }, false},
		"another restore works": {func(c *cluster) {
			c.must(c.Create(c.Context(), restoreOf("other", "web")))
			vm := c.vm("web")
			vm.Status.RestoreInProgress = ptr.To("other")
			c.must(c.Status().Update(c.Context(), vm))
		}, false},
	} {
		c := newCluster(t, withVolumeSnapshots, append(storageObjects(), runningGuest())...)
		vm := c.vm("web")
		vm.Spec.RunStrategy = ptr.To(v1.RunStrategyAlways)
		c.must(c.Update(t.Context(), vm))
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.reconcileAll(c.runDriver)
		test.change(c)
		restore := restoreOf("r", "web")
		restore.Spec.TargetReadinessPolicy = ptr.To(api.VirtualMachineRestoreStopTarget)
		c.must(c.Create(t.Context(), restore))
		c.reconcileAll(c.runDriver)
		of := readObject(c, "r", &api.VirtualMachineRestore{}).Status
		if vm := c.vm("web"); *vm.Spec.RunStrategy != v1.RunStrategyAlways || len(vm.Status.StateChangeRequests) > 0 ||
			operation.HasFailed(of.Conditions) != test.fails {
			t.Errorf("%s: run strategy %s, %+v", why, *vm.Spec.RunStrategy, of)
		}
	}
}
