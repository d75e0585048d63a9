package vmsnapshot

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// contentFinalizer is KubeVirt's finalizer of VirtualMachineSnapshotContents.
const contentFinalizer = "snapshot.kubevirt.io/vmsnapshotcontent-protection"

// ContentReconciler reconciles VirtualMachineSnapshotContents: it removes the finalizer of a content whose snapshot is deleted or has failed, so that the
// content can be deleted.
type ContentReconciler struct{ *operation.Cluster }

// Reconcile removes the finalizer of a content that no snapshot needs.
func (r *ContentReconciler) Reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	content, err := objects.GetOrNil(ctx, r.Live, key, &api.VirtualMachineSnapshotContent{})
	if err != nil || content == nil || !controllerutil.ContainsFinalizer(content, contentFinalizer) {
		return 0, err
	}
	snapshotKey := types.NamespacedName{Namespace: key.Namespace, Name: ptr.Deref(content.Spec.VirtualMachineSnapshotName, "")}
	found, err := objects.GetOrNil(ctx, r.Live, snapshotKey, &api.VirtualMachineSnapshot{})
	if err != nil {
		return 0, err
	}
	if found != nil && operation.ContentName(found.UID) == key.Name && found.DeletionTimestamp == nil && operation.PhaseOf(found) != api.Failed {
		return 0, nil
	}
	return 0, client.IgnoreNotFound(r.Patch(ctx, content, func() { controllerutil.RemoveFinalizer(content, contentFinalizer) }))
}
