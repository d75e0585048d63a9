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

// TestStartInBetween: a guest that was started in the moment before the hold goes, and what its boot wrote into the record too.
func TestStartInBetween(t *testing.T) {
	c := newCluster(t, nil, everything()...)
	before := c.vm("web")
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.step()
	c.edit()
	c.must(c.Create(t.Context(), restoreOf("r", "web")))
	started := false
	c.step(func() {
		if !started && c.vm("web").Annotations[snapshot.Mark] != "" && c.vm("web").Status.RestoreInProgress != nil {
			started = true
			c.must(c.Create(t.Context(), guest()))
			hardware := c.hardware("web")
			hardware.Spec.Hardware.Machine = "pc-q35-7.2"
			c.must(c.Update(t.Context(), hardware))
		}
	})
	if !started || read(c, "web", &v1.VirtualMachineInstance{}) != nil || !*read(c, "r", &api.VirtualMachineRestore{}).Status.Complete {
		t.Fatalf("started %t, left %v", started, read(c, "web", &v1.VirtualMachineInstance{}))
	}
	c.restored(before)
}

// TestStartAfterwards: a guest that is started when the restore has let its VM go stays, although the controller has died before it wrote that the restore is
// complete.
func TestStartAfterwards(t *testing.T) {
	found := false
	for dies := range 40 {
		c := newCluster(t, nil, everything()...)
		c.must(c.Create(t.Context(), snapshotOf("s")))
		c.step()
		c.must(c.Create(t.Context(), restoreOf("r", "web")))
		c.fails = dies + 1
		started := false
		c.step(func() {
			vm, of := c.vm("web"), read(c, "r", &api.VirtualMachineRestore{})
			if !started && vm.Annotations[snapshot.Mark] != "" && vm.Status.RestoreInProgress == nil && !*of.Status.Complete {
				started = true
				c.must(c.Create(t.Context(), guest()))
			}
		})
		if found = found || started; started && read(c, "web", &v1.VirtualMachineInstance{}) == nil {
			t.Errorf("dies after write %d: the guest is gone", dies+1)
		}
		if !*read(c, "r", &api.VirtualMachineRestore{}).Status.Complete {
			t.Errorf("dies after write %d: the restore is not complete", dies+1)
		}
	}
	if !found {
		t.Error("no death lies between")
	}
}

// TestOrphans: a lock whose snapshot or restore is gone by force ends.
func TestOrphans(t *testing.T) {
	vm := machine()
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

// TestTwoRestores: the second one waits for the first, and for a snapshot.
func TestTwoRestores(t *testing.T) {
	c := newCluster(t, nil, everything()...)
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.step()
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
	if of := operation.FindCondition(read(c, "r", &api.VirtualMachineRestore{}).Status.Conditions, api.ConditionReady); of.Reason != v1alpha1.ReasonSourceBusy ||
		!strings.Contains(of.Message, "restore 'other'") {
		t.Errorf("%+v", of)
	}
	c.step()
	if !*read(c, "r", &api.VirtualMachineRestore{}).Status.Complete || !*read(c, "other", &api.VirtualMachineRestore{}).Status.Complete {
		t.Error("one of them is not complete")
	}
}

// TestContentWithoutVM: what an administrator has written into a content takes nothing down.
func TestContentWithoutVM(t *testing.T) {
	c := newCluster(t, withVolumeSnapshots, everything()...)
	c.must(c.Create(t.Context(), snapshotOf("s")))
	c.step()
	content := read(c, operation.ContentName("snap-1"), &api.VirtualMachineSnapshotContent{})
	content.Spec.Source.VirtualMachine = nil
	content.Spec.VolumeBackups = []api.VolumeBackup{{VolumeName: "a", VolumeSnapshotName: ptr.To("a")}}
	c.must(c.Update(t.Context(), content))
	c.must(c.Create(t.Context(), restoreOf("r", "web")))
	c.step()
	if of := read(c, "s", &api.VirtualMachineSnapshot{}).Status; *of.ReadyToUse || *of.Error.Message != "spec.source.virtualMachine is not a VM" {
		t.Errorf("%+v", of)
	}
}
