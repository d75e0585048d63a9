package vmsnapshot

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// complete ends a snapshot whose content is complete.
type complete struct{ statusWriter }

func (c complete) Run(ctx context.Context, s *state) (operation.Result, error) {
	volumes, partial, err := c.listVolumes(ctx, s.content)
	if err != nil {
		return operation.Result{}, err
	}
	return operation.RetryAfter(operation.NextStep), operation.CountSuccess(operation.Snapshot, c.PatchStatus(ctx, s.snapshot, func() {
		status, content, now := s.snapshot.Status, s.content.Status, c.Now()
		status.Phase, status.CreationTime, status.SnapshotVolumes = api.Succeeded, content.CreationTime, volumes
		status.VirtualMachineSnapshotContentName = &s.content.Name
		if partial {
			operation.AddIndications(status, api.VMSnapshotPartialSnapshotIndication)
		}
		taken := operation.ConditionFalse(v1alpha1.ReasonCompleted, "the snapshot is taken")
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionProgressing, taken, now)
		copyReadiness(status, content, now)
	}))
}

// listVolumes returns which volumes of the VM a content includes. partial reports that it lacks a volume with a claim: a driver with snapshots could have
// included it.
func (c complete) listVolumes(
	ctx context.Context, content *api.VirtualMachineSnapshotContent,
) (lists *api.SnapshotVolumesLists, partial bool, err error) {
	kept, err := snapshot.Read(content)
	if err != nil {
		return nil, false, err
	}
	claims, others := snapshot.Volumes(kept.VM)
	lists = &api.SnapshotVolumesLists{ExcludedVolumes: others}
	for _, volume := range claims {
		if kept.Backup(volume.Name) != nil {
			lists.IncludedVolumes = append(lists.IncludedVolumes, volume.Name)
			continue
		}
		if volume.Name == snapshot.State {
			key := types.NamespacedName{Namespace: content.Namespace, Name: volume.Claim}
			claim, err := objects.GetOrNil(ctx, c.Live, key, &corev1.PersistentVolumeClaim{})
			if err != nil {
				return nil, false, err
			}
			if claim == nil {
				continue
			}
		}
		lists.ExcludedVolumes, partial = append(lists.ExcludedVolumes, volume.Name), true
	}
	return lists, partial, nil
}
