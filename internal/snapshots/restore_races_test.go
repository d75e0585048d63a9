package snapshots

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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

// TestAnOrphanIsThawedFirst: a VM whose guest could not be asked to thaw stays locked, and the next look asks again. An unlocked VM is not looked at any
// more, so that its guest would stay frozen.
func TestAnOrphanIsThawedFirst(t *testing.T) {
	vm := machine()
	vm.Finalizers = []string{vmlock.Finalizer}
	vm.Status.SnapshotInProgress = ptr.To("s")
	c := newCluster(t, nil, vm)
	unreachable := errors.New("the API server is away for a moment")
	c.reconcilers.cluster.Live = interceptor.NewClient(c.WithWatch, interceptor.Funcs{
		Get: func(ctx context.Context, below client.WithWatch, at client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, guest := object.(*v1.VirtualMachineInstance); guest {
				return unreachable
			}
			return below.Get(ctx, at, object, options...)
		},
	})
	if _, err := c.reconcilers.orphans.Reconcile(t.Context(), key); !errors.Is(err, unreachable) {
		t.Errorf("got %v, want the error about the guest", err)
	}
	if vm := c.vm("web"); vm.Status.SnapshotInProgress == nil || len(vm.Finalizers) == 0 {
		t.Fatalf("the VM is unlocked, and its guest was not asked to thaw: %+v %v", vm.Status, vm.Finalizers)
	}
	c.reconcilers.cluster.Live = c.WithWatch
	if _, err := c.reconcilers.orphans.Reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if vm := c.vm("web"); vm.Status.SnapshotInProgress != nil || len(vm.Finalizers) > 0 {
		t.Errorf("the next look leaves the VM locked: %+v %v", vm.Status, vm.Finalizers)
	}
}

// TestOrphansOfBefore: what was locked by something that went while no controller ran is freed at its start. What still works keeps its lock.
func TestOrphansOfBefore(t *testing.T) {
	for why, test := range map[string]struct {
		lock, hold *string
		exist      []client.Object
		source     string
		freed      bool
	}{
		"both are gone":                       {ptr.To("s"), ptr.To("r"), nil, "web", true},
		"the finalizer of an earlier release": {nil, nil, nil, "web", true},
		"a snapshot of another VM":            {ptr.To("s"), nil, []client.Object{snapshotOf("s")}, "other", true},
		"a restore of another VM":             {nil, ptr.To("r"), []client.Object{restoreOf("r", "other")}, "web", true},
		"the snapshot works":                  {ptr.To("s"), nil, []client.Object{snapshotOf("s")}, "web", false},
		"the restore works":                   {ptr.To("s"), ptr.To("r"), []client.Object{restoreOf("r", "web"), snapshotOf("s")}, "web", false},
	} {
		vm := machine()
		vm.Finalizers = []string{vmlock.Finalizer}
		vm.Status.SnapshotInProgress, vm.Status.RestoreInProgress = test.lock, test.hold
		c := newCluster(t, nil, append(test.exist, vm)...)
		if of := read(c, "s", &api.VirtualMachineSnapshot{}); of != nil {
			of.Spec.Source.Name = test.source
			c.must(c.Update(t.Context(), of))
		}
		if !vmlock.IsLocked(c.vm("web")) {
			t.Errorf("%s: the VM is not looked at", why)
		}
		for range 2 {
			if _, err := c.reconcilers.orphans.Reconcile(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		now := c.vm("web")
		if freed := now.Status.SnapshotInProgress == nil && now.Status.RestoreInProgress == nil && len(now.Finalizers) == 0; freed != test.freed {
			t.Errorf("%s: %+v %v", why, now.Status, now.Finalizers)
		}
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
