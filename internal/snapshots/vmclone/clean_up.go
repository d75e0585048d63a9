package vmclone

import (
	"context"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clone "kubevirt.io/api/clone/v1beta1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cleanUp deletes the snapshot and the restore of a clone that has succeeded, once the claims of the target are bound and no longer need them.
type cleanUp struct{ statusWriter }

func (c cleanUp) Run(ctx context.Context, cloned *clone.VirtualMachineClone) (operation.Result, error) {
	if cloned.Status.RestoreName == nil && cloned.Status.SnapshotName == nil {
		return operation.Wait(), nil
	}
	bound, err := c.claimsAreBound(ctx, cloned)
	if err != nil {
		return operation.Result{}, err
	}
	if !bound {
		return c.waitForObjects(cloned)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: cloned.Namespace, Name: name} }
	for _, object := range []client.Object{
		&api.VirtualMachineRestore{ObjectMeta: meta(restoreName(cloned))}, &api.VirtualMachineSnapshot{ObjectMeta: meta(snapshotName(cloned))},
	} {
		if err := client.IgnoreNotFound(c.Live.Delete(ctx, object)); err != nil {
			return operation.Result{}, err
		}
	}
	return operation.Wait(), c.PatchStatus(ctx, cloned, func() { cloned.Status.RestoreName, cloned.Status.SnapshotName = nil, nil })
}

// claimsAreBound reports whether all claims of the target that still exist are bound.
func (c cleanUp) claimsAreBound(ctx context.Context, cloned *clone.VirtualMachineClone) (bool, error) {
	key := types.NamespacedName{Namespace: cloned.Namespace, Name: restoreName(cloned)}
	restore, err := objects.GetOrNil(ctx, c.Live, key, &api.VirtualMachineRestore{})
	if err != nil || restore == nil || restore.Status == nil {
		return err == nil, err
	}
	for _, restored := range restore.Status.Restores {
		key.Name = restored.PersistentVolumeClaimName
		claim, err := objects.GetOrNil(ctx, c.Live, key, &corev1.PersistentVolumeClaim{})
		if err != nil {
			return false, err
		}
		if claim != nil && claim.Status.Phase != corev1.ClaimBound {
			return false, nil
		}
	}
	return true, nil
}
