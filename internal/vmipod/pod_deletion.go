package vmipod

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/pkg/pod"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// podDeletion deletes pods of VMIs.
type podDeletion struct{ *environment }

// deletePod deletes the pod of a VMI, with the current grace period of the VMI. It may have become shorter since the pod was created; kubelet accepts no
// longer one.
func (d podDeletion) deletePod(ctx context.Context, o observed.Objects) error {
	return d.deleteObject(ctx, o.Pod, client.GracePeriodSeconds(pod.Grace(o.VMI.Spec.TerminationGracePeriodSeconds)))
}

// shortenGracePeriod deletes a pod once more if the VMI's owner has shortened the grace period since the first deletion.
func (d podDeletion) shortenGracePeriod(ctx context.Context, o observed.Objects) error {
	if given := o.Pod.DeletionGracePeriodSeconds; given == nil || *given <= pod.Grace(o.VMI.Spec.TerminationGracePeriodSeconds) {
		return nil
	}
	return d.deletePod(ctx, o)
}

// deleteUnrecorded deletes a pod that is not in the status of the VMI.
func (d podDeletion) deleteUnrecorded(ctx context.Context, o observed.Objects) error {
	if unrecorded, err := d.isUnrecorded(ctx, o); err != nil || !unrecorded {
		return err
	}
	return d.deleteObject(ctx, o.Pod)
}

// removeFinalizer removes the finalizer of a pod in which no guest runs.
func (d podDeletion) removeFinalizer(ctx context.Context, o observed.Objects) error {
	if !factsOf(o).podStopped() {
		if unrecorded, err := d.isUnrecorded(ctx, o); err != nil || !unrecorded {
			return err
		}
	}
	released := o.Pod.DeepCopy()
	controllerutil.RemoveFinalizer(released, v1alpha1.FinalizerGuestPod)
	return client.IgnoreNotFound(objects.Patch(ctx, d.Client, released, o.Pod))
}

// isUnrecorded asks the API server whether the status of the VMI lacks the pod: the cache may lag behind the status.
func (d podDeletion) isUnrecorded(ctx context.Context, o observed.Objects) (bool, error) {
	current, err := objects.GetOrNil(ctx, d.Live, o.Key, &v1.VirtualMachineInstance{})
	return err == nil && (current == nil || current.UID != o.VMI.UID || !observed.IsRecorded(current, o.Pod.UID)), err
}
