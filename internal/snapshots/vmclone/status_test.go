package vmclone

import (
	"testing"
	"time"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/test/fakecluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clone "kubevirt.io/api/clone/v1beta1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func testClone() *clone.VirtualMachineClone {
	return &clone.VirtualMachineClone{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "copy", UID: "c-1"}}
}

// TestPhases: the conditions follow from the phase, and a waiting clone is read less often the longer it waits.
func TestPhases(t *testing.T) {
	for phase, want := range map[clone.VirtualMachineClonePhase][2]corev1.ConditionStatus{
		clone.SnapshotInProgress: {corev1.ConditionTrue, corev1.ConditionFalse},
		clone.RestoreInProgress:  {corev1.ConditionTrue, corev1.ConditionFalse},
		clone.Succeeded:          {corev1.ConditionFalse, corev1.ConditionTrue},
		clone.Failed:             {corev1.ConditionFalse, corev1.ConditionFalse},
	} {
		cloned := testClone()
		cluster, _ := fakecluster.New(t, cloned)
		if err := cluster.Live.Get(t.Context(), client.ObjectKeyFromObject(cloned), cloned); err != nil {
			t.Fatal(err)
		}
		w := statusWriter{cluster}
		if after := w.pollDelay(cloned); after != operation.PollInterval {
			t.Errorf("%s: a new clone is read after %s", phase, after)
		}
		if err := w.reportPhase(t.Context(), cloned, phase, operation.ConditionTrue("Reason", "why")); err != nil {
			t.Fatal(err)
		}
		conditions := cloned.Status.Conditions
		if cloned.Status.Phase != phase || len(conditions) != 2 || conditions[0].Status != want[0] || conditions[1].Status != want[1] {
			t.Errorf("%s: %+v", phase, cloned.Status)
		}
		cluster.Now = func() time.Time { return fakecluster.Start.Add(10 * time.Minute) }
		if after := w.pollDelay(cloned); after != time.Minute {
			t.Errorf("%s: after ten minutes a clone is read after %s", phase, after)
		}
	}
}

// TestCleanUpWaitsForClaims: snapshot and restore of a clone stay until the claims of the target are bound, and are deleted then.
func TestCleanUpWaitsForClaims(t *testing.T) {
	for phase, deleted := range map[corev1.PersistentVolumeClaimPhase]bool{corev1.ClaimPending: false, corev1.ClaimBound: true} {
		cloned := testClone()
		snapshot, restore := snapshotName(cloned), restoreName(cloned)
		cloned.Status = clone.VirtualMachineCloneStatus{Phase: clone.Succeeded, SnapshotName: &snapshot, RestoreName: &restore}
		meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team", Name: name} }
		cluster, _ := fakecluster.New(t, cloned, &api.VirtualMachineSnapshot{ObjectMeta: meta(snapshot)},
			&api.VirtualMachineRestore{ObjectMeta: meta(restore), Status: &api.VirtualMachineRestoreStatus{
				Restores: []api.VolumeRestore{{PersistentVolumeClaimName: "root"}, {PersistentVolumeClaimName: "deleted by its owner"}}}},
			&corev1.PersistentVolumeClaim{ObjectMeta: meta("root"), Status: corev1.PersistentVolumeClaimStatus{Phase: phase}})
		if _, err := New(cluster).Reconcile(t.Context(), client.ObjectKeyFromObject(cloned)); err != nil {
			t.Fatal(err)
		}
		left, err := objects.GetOrNil(t.Context(), cluster.Live, client.ObjectKey{Namespace: "team", Name: snapshot}, &api.VirtualMachineSnapshot{})
		if err != nil || (left == nil) != deleted {
			t.Errorf("%s: snapshot %v, %v", phase, left, err)
		}
		if err := cluster.Live.Get(t.Context(), client.ObjectKeyFromObject(cloned), cloned); err != nil || (cloned.Status.SnapshotName == nil) != deleted {
			t.Errorf("%s: %+v %v", phase, cloned.Status, err)
		}
	}
}
