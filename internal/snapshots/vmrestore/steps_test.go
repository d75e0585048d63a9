package vmrestore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"github.com/kilnvm/kiln/test/fakecluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func testState() *state {
	restore := &api.VirtualMachineRestore{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "r", UID: "r-1"},
		Spec: api.VirtualMachineRestoreSpec{VirtualMachineSnapshotName: "s", Target: corev1.TypedLocalObjectReference{Kind: "VirtualMachine", Name: "web"}}}
	restore.Status = &api.VirtualMachineRestoreStatus{
		Conditions: operation.SetCondition(nil, api.ConditionReady, operation.ConditionFalse("InProgress", ""), fakecluster.Start)}
	return &state{restore: restore, vm: &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "vm-1"}}}
}

// fixedStep returns a step with a result.
func fixedStep(err error) operation.Step[*state] {
	return func(context.Context, *state) (operation.Result, error) { return operation.Done(), err }
}

// TestStopTarget: a restore waits for its target, fails, or stops it, as its policy says; and it stops no target before its checks succeed.
func TestStopTarget(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "vmi-1"}}
	written := func(s *state) { s.vm.Annotations = map[string]string{snapshot.Mark: snapshot.MarkOf(s.restore)} }
	policy := func(policy api.TargetReadinessPolicy) func(*state) {
		return func(s *state) { s.restore.Spec.TargetReadinessPolicy = &policy }
	}
	refused := failBecause("NotActivatable", "a network is gone")
	for why, test := range map[string]struct {
		change func(*state)
		passed time.Duration
		check  error
		// text is a part of the message of the error, empty for none.
		text         string
		final, stops bool
	}{
		"no target": {func(s *state) { s.vm = nil }, 0, nil, "", false, false},
		"the target is being deleted": {func(s *state) { s.vm.DeletionTimestamp = &metav1.Time{Time: fakecluster.Start} }, 0, nil,
			"is being deleted", false, false},
		"the target was unlocked and started": {written, 0, nil, "", false, false},
		"the grace period":                    {func(*state) {}, 4 * time.Minute, nil, "stop the VM within 5m0s", false, false},
		"after the grace period":              {func(*state) {}, 6 * time.Minute, nil, "it was not stopped within 5m0s", true, false},
		"fail at once":                        {policy(api.VirtualMachineRestoreFailImmediate), 0, nil, "stop the VM", true, false},
		"wait forever":                        {policy(api.VirtualMachineRestoreWaitEventually), time.Hour, nil, "stop the VM", false, false},
		"stop it":                             {policy(api.VirtualMachineRestoreStopTarget), time.Hour, nil, "is being stopped", false, true},
		"stop it after a check":               {policy(api.VirtualMachineRestoreStopTarget), 0, refused, "a network is gone", true, false},
	} {
		s := testState()
		s.vm.Spec.RunStrategy = ptr.To(v1.RunStrategyAlways)
		cluster, _ := fakecluster.New(t, s.vm, vmi)
		cluster.Now = func() time.Time { return fakecluster.Start.Add(test.passed) }
		if err := cluster.Live.Get(t.Context(), client.ObjectKeyFromObject(s.vm), s.vm); err != nil {
			t.Fatal(err)
		}
		vm := s.vm
		test.change(s)
		_, err := (stopTarget{cluster, steps{fixedStep(test.check)}}).Run(t.Context(), s)
		blocked := (*blockedError)(nil)
		if errors.As(err, &blocked) != (test.text != "") || blocked != nil && (blocked.final != test.final || !strings.Contains(blocked.message, test.text)) {
			t.Errorf("%s: %v", why, err)
		}
		if err := cluster.Live.Get(t.Context(), client.ObjectKeyFromObject(vm), vm); err != nil || (*vm.Spec.RunStrategy == v1.RunStrategyHalted) != test.stops {
			t.Errorf("%s: run strategy %s, %v", why, *vm.Spec.RunStrategy, err)
		}
	}
}

// TestReadSnapshot: a restore waits for a snapshot that may become ready, and fails if it never will.
func TestReadSnapshot(t *testing.T) {
	ready := func(change func(*api.VirtualMachineSnapshot)) *api.VirtualMachineSnapshot {
		of := &api.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s", UID: "snap-1"},
			Status: &api.VirtualMachineSnapshotStatus{Phase: api.Succeeded, ReadyToUse: ptr.To(true), SourceUID: ptr.To(testState().vm.UID)}}
		change(of)
		return of
	}
	for why, test := range map[string]struct {
		snapshot *api.VirtualMachineSnapshot
		locked   bool
		text     string
		final    bool
	}{
		"it does not exist":   {nil, false, "does not exist", false},
		"it was deleted":      {nil, true, "does not exist", true},
		"it has failed":       {ready(func(of *api.VirtualMachineSnapshot) { of.Status.Phase = api.Failed }), false, "has failed", true},
		"it is not ready":     {ready(func(of *api.VirtualMachineSnapshot) { of.Status.ReadyToUse = nil }), false, "is not ready to use", false},
		"it is of another VM": {ready(func(of *api.VirtualMachineSnapshot) { of.Status.SourceUID = nil }), false, "is not the VM of the snapshot", true},
		"its content is gone": {ready(func(*api.VirtualMachineSnapshot) {}), false, "VirtualMachineSnapshotContent", true},
	} {
		cluster, _ := fakecluster.New(t)
		if test.snapshot != nil {
			cluster, _ = fakecluster.New(t, test.snapshot)
		}
		s := testState()
		if test.locked {
			s.vm.Status.RestoreInProgress = &s.restore.Name
		}
		_, err := (readSnapshot{cluster}).Run(t.Context(), s)
		blocked := (*blockedError)(nil)
		if !errors.As(err, &blocked) || blocked.final != test.final || !strings.Contains(blocked.message, test.text) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// TestOtherOperations: a restore waits for the lock of another operation, and takes a free one.
func TestOtherOperations(t *testing.T) {
	s := testState()
	if _, err := waitForOtherOperation(t.Context(), s); err != nil {
		t.Error(err)
	}
	s.vm.Status.SnapshotInProgress = ptr.To("s")
	blocked := (*blockedError)(nil)
	if _, err := waitForOtherOperation(t.Context(), s); !errors.As(err, &blocked) || blocked.final || blocked.reason != v1alpha1.ReasonSourceBusy {
		t.Errorf("%v", err)
	}
}

// TestMayUse: a restore uses claims that it created, and replaces the claims of the snapshot only in place.
func TestMayUse(t *testing.T) {
	for why, test := range map[string]struct {
		volume, claim string
		policy        api.VolumeRestorePolicy
		own, want     bool
	}{
		"its own":                     {"root", "restore-root", "", true, true},
		"another":                     {"root", "restore-root", "", false, false},
		"the source, in place":        {"root", "root", api.VolumeRestorePolicyInPlace, false, true},
		"the source, not in place":    {"root", "root", "", false, false},
		"an override, in place":       {"root", "other", api.VolumeRestorePolicyInPlace, false, false},
		"the state, under any policy": {snapshot.State, "persistent-state-for-web", "", false, true},
	} {
		s := testState()
		s.restore.Spec.VolumeRestorePolicy = &test.policy
		backup := api.VolumeBackup{VolumeName: "root", VolumeSnapshotName: ptr.To("root")}
		backup.PersistentVolumeClaim.Name = "root"
		s.kept.Backups = []api.VolumeBackup{backup}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: test.claim}}
		if test.own {
			claim.Annotations = map[string]string{snapshot.Mark: snapshot.MarkOf(s.restore)}
		}
		if got := s.mayUse(api.VolumeRestore{VolumeName: test.volume}, claim); got != test.want {
			t.Errorf("%s: %t, want %t", why, got, test.want)
		}
	}
}
