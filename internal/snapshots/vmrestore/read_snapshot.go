package vmrestore

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// readSnapshot reads the content of the snapshot, without its hardware record.
type readSnapshot struct{ *operation.Cluster }

func (r readSnapshot) Run(ctx context.Context, s *state) (operation.Result, error) {
	key := types.NamespacedName{Namespace: s.restore.Namespace, Name: s.restore.Spec.VirtualMachineSnapshotName}
	found, err := objects.GetOrNil(ctx, r.Live, key, &api.VirtualMachineSnapshot{})
	if err != nil {
		return operation.Result{}, err
	}
	switch {
	case found == nil:
		// If the restore has locked its target, the snapshot existed before and was deleted: the VM must not stay locked for it.
		text := fmt.Sprintf("VirtualMachineSnapshot '%s' does not exist", key.Name)
		return operation.Result{}, &blockedError{v1alpha1.ReasonSnapshotNotReady, text, s.hasLock()}
	case operation.PhaseOf(found) == api.Failed:
		return operation.Result{}, failBecause(v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf("VirtualMachineSnapshot '%s' has failed", key.Name))
	case found.Status == nil || !ptr.Deref(found.Status.ReadyToUse, false):
		return operation.Result{}, waitBecause(v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf("VirtualMachineSnapshot '%s' is not ready to use", key.Name))
	case s.vm != nil && ptr.Deref(found.Status.SourceUID, "") != s.vm.UID:
		return operation.Result{}, failBecause(v1alpha1.ReasonTargetExists, fmt.Sprintf("VirtualMachine '%s' exists, and is not the VM of the snapshot: "+
			"restore into another name, or delete it", s.vm.Name))
	}
	key.Name = operation.ContentName(found.UID)
	content, err := objects.GetOrNil(ctx, r.Live, key, &api.VirtualMachineSnapshotContent{})
	if err != nil {
		return operation.Result{}, err
	}
	if content == nil || content.DeletionTimestamp != nil || ptr.Deref(content.Spec.VirtualMachineSnapshotName, "") != found.Name {
		return operation.Result{}, failBecause(v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf("VirtualMachineSnapshotContent '%s' is gone", key.Name))
	}
	if s.kept, err = snapshot.Read(content); err != nil {
		return operation.Result{}, failBecause(v1alpha1.ReasonMalformed, fmt.Sprintf("VirtualMachineSnapshotContent '%s': %v", key.Name, err))
	}
	return operation.Done(), nil
}
