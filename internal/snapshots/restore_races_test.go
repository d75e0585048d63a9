package snapshots

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// TestStartBeforeTheLock: a guest that was started a moment before the lock is deleted, and what its boot wrote into the record is replaced.
func TestStartBeforeTheLock(t *testing.T) {
	c := newCluster(t, nil, testObjects()...)
	before := c.vm("web")
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll()
	c.editVM()
	c.must(c.Create(t.Context(), restoreOf("r", "web")))
	started := false
	c.reconcileAll(func() {
		if !started && c.vm("web").Annotations[snapshot.Mark] != "" && c.vm("web").Status.RestoreInProgress != nil {
			started = true
			c.must(c.Create(t.Context(), runningGuest()))
			hardware := c.hardware("web")
			hardware.Spec.Hardware.Machine = "pc-q35-7.2"
			c.must(c.Update(t.Context(), hardware))
		}
	})
	if !started || readObject(c, "web", &v1.VirtualMachineInstance{}) != nil || !*readObject(c, "r", &api.VirtualMachineRestore{}).Status.Complete {
		t.Fatalf("started %t, left %v", started, readObject(c, "web", &v1.VirtualMachineInstance{}))
	}
	c.checkRestored(before)
}

// TestStartAfterTheUnlock: a guest that is started after the unlock stays, even if the process died before it wrote that the restore is complete.
func TestStartAfterTheUnlock(t *testing.T) {
	found := false
	for dies := range 40 {
		c := newCluster(t, nil, testObjects()...)
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.reconcileAll()
		c.must(c.Create(t.Context(), restoreOf("r", "web")))
		c.dieAfter = dies + 1
		started := false
		c.reconcileAll(func() {
			vm, of := c.vm("web"), readObject(c, "r", &api.VirtualMachineRestore{})
			if !started && vm.Annotations[snapshot.Mark] != "" && vm.Status.RestoreInProgress == nil && !*of.Status.Complete {
				started = true
				c.must(c.Create(t.Context(), runningGuest()))
			}
		})
		if found = found || started; started && readObject(c, "web", &v1.VirtualMachineInstance{}) == nil {
			t.Errorf("dies after write %d: the guest is gone", dies+1)
		}
		if !*readObject(c, "r", &api.VirtualMachineRestore{}).Status.Complete {
			t.Errorf("dies after write %d: the restore is not complete", dies+1)
		}
	}
	if !found {
		t.Error("no death lies between")
	}
}

// TestOrphans: reconciling a snapshot and a restore that were deleted without running their finalizers unlocks their VM.
func TestOrphans(t *testing.T) {
	vm := testVM()
	vm.Finalizers = []string{vmlock.Finalizer}
	vm.Status.SnapshotInProgress, vm.Status.RestoreInProgress = ptr.To("s"), ptr.To("r")
	c := newCluster(t, nil, vm)
	for name, of := range map[string]operation.ReconcileFunc{"s": c.reconcilers.snapshot.Reconcile, "r": c.reconcilers.restore.Reconcile} {
		if _, err := of(t.Context(), at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if vm := c.vm("web"); vm.Status.SnapshotInProgress != nil || vm.Status.RestoreInProgress != nil || len(vm.Finalizers) > 0 {
		t.Errorf("%+v %v", vm.Status, vm.Finalizers)
	}
}

// TestTwoRestores: the second restore of a VM waits for the first.
func TestTwoRestores(t *testing.T) {
	c := newCluster(t, nil, testObjects()...)
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll()
	vm := c.vm("web")
	vm.Status.RestoreInProgress = ptr.To("other")
	c.must(c.Status().Update(t.Context(), vm))
	c.must(c.Create(t.Context(), restoreOf("other", "web")))
	busy := restoreOf("r", "web")
	busy.UID = "r-2"
	c.must(c.Create(t.Context(), busy))
	for range 3 {
		if _, err := c.reconcilers.restore.Reconcile(t.Context(), at("r")); err != nil {
			t.Fatal(err)
		}
	}
	ready := operation.FindCondition(readObject(c, "r", &api.VirtualMachineRestore{}).Status.Conditions, api.ConditionReady)
	if ready.Reason != v1alpha1.ReasonSourceBusy || !strings.Contains(ready.Message, "restore 'other'") {
		t.Errorf("%+v", ready)
	}
	c.reconcileAll()
	if !*readObject(c, "r", &api.VirtualMachineRestore{}).Status.Complete || !*readObject(c, "other", &api.VirtualMachineRestore{}).Status.Complete {
		t.Error("one of them is not complete")
	}
}

// TestContentWithoutVM: a content that an administrator has broken is reported, and does not crash the process.
func TestContentWithoutVM(t *testing.T) {
	c := newCluster(t, withVolumeSnapshots, testObjects()...)
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.reconcileAll()
	content := readObject(c, operation.ContentName("snap-1"), &api.VirtualMachineSnapshotContent{})
	content.Spec.Source.VirtualMachine = nil
	content.Spec.VolumeBackups = []api.VolumeBackup{{VolumeName: "a", VolumeSnapshotName: ptr.To("a")}}
	c.must(c.Update(t.Context(), content))
	c.must(c.Create(t.Context(), restoreOf("r", "web")))
	c.reconcileAll()
	if of := readObject(c, "s", &api.VirtualMachineSnapshot{}).Status; *of.ReadyToUse || *of.Error.Message != "spec.source.virtualMachine is not a VM" {
		t.Errorf("%+v", of)
	}
}
