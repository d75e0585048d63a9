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

func forbidden(of client.Object, why string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: fmt.Sprintf("%T", of)}, of.GetName(), fmt.Errorf("%s", why))
}

// force deletes an object whose finalizers somebody takes away.
func (c *cluster) force(object client.Object) {
	c.Helper()
	if err := c.Get(c.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		c.must(client.IgnoreNotFound(err))
		return
	}
	object.SetFinalizers(nil)
	c.must(c.Update(c.Context(), object))
	c.must(client.IgnoreNotFound(c.WithWatch.Delete(c.Context(), object)))
}

// pair reports which of spec and hardware are those of the snapshot, and fails the test if the VM may start with one of each moment.
func (c *cluster) pair(when string, specOf func(*v1.VirtualMachine) bool) (restored bool) {
	c.Helper()
	vm := c.vm("web")
	spec, hardware := specOf(vm), cmp.Equal(recorded().Spec, c.hardware("web").Spec)
	if spec != hardware || vm.Status.RestoreInProgress != nil || vm.Status.SnapshotInProgress != nil || len(vm.Finalizers) > 0 ||
		vm.Annotations[v1alpha1.AnnotationRecord] != "" {
		c.Errorf("%s: the spec is restored %t, the hardware %t: %+v %v", when, spec, hardware, vm.Status, vm.ObjectMeta)
	}
	return spec
}

// TestPairs: whenever the controller dies, and whatever goes away meanwhile, a VM that may start has spec and hardware of one moment.
func TestPairs(t *testing.T) {
	snapshots := func(c *cluster) {
		c.force(snapshotOf("s"))
		c.force(&api.VirtualMachineSnapshotContent{ObjectMeta: snapshotOf(operation.ContentName("snap-1")).ObjectMeta})
	}
	for why, meanwhile := range map[string]func(*cluster){
		"nothing goes": func(*cluster) {},
		"the restore is deleted": func(c *cluster) {
			c.must(client.IgnoreNotFound(c.WithWatch.Delete(c.Context(), restoreOf("r", "web"))))
		},
		"the restore goes":        func(c *cluster) { c.force(restoreOf("r", "web")) },
		"the snapshot goes":       snapshots,
		"both go":                 func(c *cluster) { snapshots(c); c.force(restoreOf("r", "web")) },
		"the owner edits, and so": func(c *cluster) { vm := c.vm("web"); vm.Labels["a"] = "b"; c.must(c.Update(c.Context(), vm)) },
	} {
		outcomes := map[bool]int{}
		life := func(dies int) int {
			c := newCluster(t, nil, everything()...)
			before := c.vm("web")
			c.must(c.Create(t.Context(), snapshotOf("s")))
			c.step()
			c.edit()
			first := len(c.writes)
			c.fails, c.died = dies, func() { meanwhile(c) }
			c.must(c.Create(t.Context(), restoreOf("r", "web")))
			c.step()
			outcomes[c.pair(fmt.Sprintf("%s after write %d", why, dies), func(vm *v1.VirtualMachine) bool { return cmp.Equal(before.Spec, vm.Spec) })]++
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

// TestRefusedLate: what admission refuses although its dry run was taken leaves VM and hardware as they were, or is waited for with the reason.
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
		c := newCluster(t, nil, everything()...)
		before := c.vm("web")
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.step()
		c.edit()
		c.refuseWrite = func(of client.Object) error {
			if test.refuses(of) {
				return forbidden(of, "a policy came meanwhile")
			}
			return nil
		}
		c.must(c.Create(t.Context(), restoreOf("r", "web")))
		c.step()
		of := read(c, "r", &api.VirtualMachineRestore{}).Status
		ready := operation.FindCondition(of.Conditions, api.ConditionReady)
		if operation.HasFailed(of.Conditions) != test.fails || ready.Reason != v1alpha1.ReasonNotAdmitted ||
			!strings.Contains(ready.Message, "a policy came meanwhile") || !c.event(v1alpha1.ReasonNotAdmitted) {
			t.Errorf("%s: %+v", why, of)
		}
		if held := c.vm("web").Status.RestoreInProgress != nil; held == test.fails {
			t.Errorf("%s: held %t", why, held)
		}
		c.refuseWrite = nil
		c.step()
		if c.pair(why, func(vm *v1.VirtualMachine) bool { return cmp.Equal(before.Spec, vm.Spec) }) == test.fails {
			t.Errorf("%s: the end is another one: %+v", why, read(c, "r", &api.VirtualMachineRestore{}).Status)
		}
	}
}

// TestRefusedTarget: a VM that cannot be made after all leaves no hardware to the next VM of its name.
func TestRefusedTarget(t *testing.T) {
	c := newCluster(t, nil, everything()...)
	vm := c.vm("web")
	vm.Spec.Template.Spec.Volumes, vm.Spec.Template.Spec.Domain.Devices.Disks = nil, nil
	c.must(c.Update(t.Context(), vm))
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.step()
	c.refuseWrite = func(of client.Object) error {
		if _, is := of.(*v1.VirtualMachine); is && of.GetName() == "two" {
			return forbidden(of, "no")
		}
		return nil
	}
	c.must(c.Create(t.Context(), restoreOf("r", "two")))
	c.step()
	made := false
	for _, write := range c.writes {
		made = made || write == "create *v1alpha1.GuestHardware two"
	}
	if !operation.HasFailed(read(c, "r", &api.VirtualMachineRestore{}).Status.Conditions) || !made || c.hardware("two") != nil {
		t.Errorf("%v %+v", c.writes, c.hardware("two"))
	}
}

// TestQuota: a claim, a VolumeSnapshot or a content that a quota refuses is waited for, with the reason, and made when there is room.
func TestQuota(t *testing.T) {
	c := newCluster(t, withVolumeSnapshots, storage()...)
	kind := "VolumeSnapshot"
	c.refuseWrite = func(of client.Object) error {
		if _, claim := of.(*corev1.PersistentVolumeClaim); of.GetObjectKind().GroupVersionKind().Kind == kind || claim && kind == "claim" {
			return forbidden(of, "exceeded quota: few")
		}
		return nil
	}
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.step(c.driver)
	progressing := operation.FindCondition(read(c, "s", &api.VirtualMachineSnapshot{}).Status.Conditions, api.ConditionProgressing)
	if progressing.Reason != v1alpha1.ReasonNotAdmitted || !strings.Contains(progressing.Message, "exceeded quota: few") || !c.event(v1alpha1.ReasonNotAdmitted) {
		t.Errorf("%+v", progressing)
	}
	kind = "claim"
	c.step(c.driver)
	c.must(c.Create(t.Context(), restoreOf("r", "web")))
	c.step(c.driver)
	ready := operation.FindCondition(read(c, "r", &api.VirtualMachineRestore{}).Status.Conditions, api.ConditionReady)
	if ready.Reason != v1alpha1.ReasonNotAdmitted || !strings.Contains(ready.Message, "exceeded quota: few") || !c.event(v1alpha1.ReasonNotAdmitted) {
		t.Errorf("%+v", ready)
	}
	kind = "none"
	c.step(c.driver)
	if of := read(c, "r", &api.VirtualMachineRestore{}).Status; !*of.Complete {
		t.Errorf("%+v", of)
	}
}

// TestStopTargetIsJudgedFirst: a restore that is refused, or waits for its snapshot, has not stopped the guest.
func TestStopTargetIsJudgedFirst(t *testing.T) {
	for why, test := range map[string]struct {
		change func(*cluster)
		fails  bool
	}{
		"a network is gone":         {func(c *cluster) { c.must(c.Delete(c.Context(), lan())) }, true},
		"the claim's name is taken": {func(c *cluster) { c.must(c.Create(c.Context(), claim("restore-r-1-root"))) }, true},
		"admission refuses": {func(c *cluster) {
			c.refuse = func(vm *v1.VirtualMachine) error {
				if vm.Annotations[snapshot.Mark] == "" {
					return nil
				}
				return forbidden(vm, "no")
			}
		}, true},
		"the snapshot is not there": {func(c *cluster) { c.force(snapshotOf("s")) }, false},
		"another restore works": {func(c *cluster) {
			c.must(c.Create(c.Context(), restoreOf("other", "web")))
			vm := c.vm("web")
			vm.Status.RestoreInProgress = ptr.To("other")
			c.must(c.Status().Update(c.Context(), vm))
		}, false},
	} {
		c := newCluster(t, withVolumeSnapshots, append(storage(), guest())...)
		vm := c.vm("web")
		vm.Spec.RunStrategy = ptr.To(v1.RunStrategyAlways)
		c.must(c.Update(t.Context(), vm))
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.step(c.driver)
		test.change(c)
		restore := restoreOf("r", "web")
		restore.Spec.TargetReadinessPolicy = ptr.To(api.VirtualMachineRestoreStopTarget)
		c.must(c.Create(t.Context(), restore))
		c.step(c.driver)
		of := read(c, "r", &api.VirtualMachineRestore{}).Status
		if vm := c.vm("web"); *vm.Spec.RunStrategy != v1.RunStrategyAlways || len(vm.Status.StateChangeRequests) > 0 ||
			operation.HasFailed(of.Conditions) != test.fails {
			t.Errorf("%s: run strategy %s, %+v", why, *vm.Spec.RunStrategy, of)
		}
	}
}
