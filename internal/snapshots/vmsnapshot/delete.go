package vmsnapshot

import (
	"context"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// deletion has the last steps of a snapshot that has failed or is being deleted.
type deletion struct{ *operation.Cluster }

// deleteContent deletes the content. A content that can be used stays if the deletionPolicy is Retain.
func (d deletion) deleteContent(ctx context.Context, s *state) (operation.Result, error) {
	if s.content == nil || s.content.DeletionTimestamp != nil {
		return operation.Done(), nil
	}
	retain := ptr.Deref(s.snapshot.Spec.DeletionPolicy, "") == api.VirtualMachineSnapshotContentRetain
	usable := s.content.Status != nil && ptr.Deref(s.content.Status.ReadyToUse, false)
	if s.snapshot.DeletionTimestamp != nil && retain && usable {
		return operation.Done(), nil
	}
	return operation.Done(), objects.DeleteSame(ctx, d.Live, s.content)
}

// removeFinalizer removes the finalizer of the snapshot.
func (d deletion) removeFinalizer(ctx context.Context, s *state) (operation.Result, error) {
	return operation.Done(), client.IgnoreNotFound(d.Patch(ctx, s.snapshot, func() { controllerutil.RemoveFinalizer(s.snapshot, finalizer) }))
}
