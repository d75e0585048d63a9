package vmlock

import (
	"testing"

	"github.com/kilnvm/kiln/internal/snapshots/hardware"
	"github.com/kilnvm/kiln/test/fakecluster"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// TestOneLockAtATime: one snapshot or restore locks a VM at a time, and the others report which one.
func TestOneLockAtATime(t *testing.T) {
	for why, test := range map[string]struct {
		snapshot, restore       *string
		forSnapshot, forRestore string
	}{
		"nothing":               {nil, nil, "", ""},
		"the snapshot itself":   {ptr.To("s"), nil, "", "snapshot 's' of the VM is in progress"},
		"the restore itself":    {nil, ptr.To("r"), "restore 'r' of the VM is in progress", ""},
		"another snapshot":      {ptr.To("x"), nil, "snapshot 'x' of the VM is in progress", "snapshot 'x' of the VM is in progress"},
		"another restore":       {nil, ptr.To("x"), "restore 'x' of the VM is in progress", "restore 'x' of the VM is in progress"},
		"a snapshot, and r too": {ptr.To("x"), ptr.To("r"), "snapshot 'x' of the VM is in progress", ""},
	} {
		cluster, _ := fakecluster.New(t, lockedVM(test.snapshot, test.restore))
		locker := &Locker{Cluster: cluster, Hardware: hardware.Writer{Cluster: cluster}}
		read := func() *v1.VirtualMachine {
			vm := &v1.VirtualMachine{}
			if err := cluster.Live.Get(t.Context(), key, vm); err != nil {
				t.Fatal(err)
			}
			return vm
		}
		if busy := BlockedForRestore(read(), "r"); busy != test.forRestore {
			t.Errorf("%s: a restore is blocked by '%s', want '%s'", why, busy, test.forRestore)
		}
		if busy, err := locker.LockForSnapshot(t.Context(), read(), "s"); err != nil || busy != test.forSnapshot {
			t.Errorf("%s: a snapshot is blocked by '%s', want '%s', %v", why, busy, test.forSnapshot, err)
		}
	}
}

// TestAFreshLockIsAConflict: the step that locks a VM for a restore ends there, so that the next one sees a guest that was started before the lock.
func TestAFreshLockIsAConflict(t *testing.T) {
	cluster, _ := fakecluster.New(t, lockedVM(nil, nil))
	locker := &Locker{Cluster: cluster, Hardware: hardware.Writer{Cluster: cluster}}
	vm := &v1.VirtualMachine{}
	if err := cluster.Live.Get(t.Context(), key, vm); err != nil {
		t.Fatal(err)
	}
	if busy, err := locker.LockForRestore(t.Context(), vm, "r"); busy != "" || !apierrors.IsConflict(err) || !IsLockedForRestore(vm, "r") {
		t.Errorf("the first step: '%s', %v, %+v", busy, err, vm.Status)
	}
	if busy, err := locker.LockForRestore(t.Context(), vm, "r"); busy != "" || err != nil {
		t.Errorf("the second step: '%s', %v", busy, err)
	}
	if err := locker.UnlockFromRestore(t.Context(), vm, "other"); err != nil || !IsLockedForRestore(vm, "r") {
		t.Errorf("another restore unlocks the VM: %v", err)
	}
	if err := locker.UnlockFromRestore(t.Context(), vm, "r"); err != nil || vm.Status.RestoreInProgress != nil {
		t.Errorf("the VM stays locked: %v", err)
	}
}
