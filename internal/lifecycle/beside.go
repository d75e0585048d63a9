package lifecycle

import (
	"context"

	"github.com/kilnvm/kiln/internal/objects"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Beside KubeVirt, virt-controller creates the VMIs, and writes phases, conditions and requests. Kiln's controller writes no VMI, and in a VM's status only the
// references to the revisions that the VM is pinned to. virt-controller expands the revisions that status.instancetypeRef and status.preferenceRef name, and
// only stores a revision of its own if they name none. So the guest gets what the VM is pinned to.
// KubeVirt: pkg/instancetype/controller/vm and pkg/instancetype/revision, v1.9.

// finishBesideKubeVirt ends the reconcile of a VM that is pinned: it writes the status references, and an event if a pin is missing. The event follows the
// write: a conflict repeats the reconcile, and would repeat the event.
func (c *Controller) finishBesideKubeVirt(ctx context.Context, s *state) (ctrl.Result, error) {
	var err error
	if s.vm.DeletionTimestamp == nil {
		err = c.writeRevisionReferences(ctx, s)
	}
	if s.failure != nil && !apierrors.IsConflict(err) {
		c.recordEvent(s, corev1.EventTypeWarning, s.failure.reason, s.failure.message)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeueAfter}, s.retryable
}

// writeRevisionReferences writes the revisions that a VM is pinned to into its status references. A matcher without a pin keeps the reference that KubeVirt
// has written, because the pin will be derived from it. A reference to the pinned content in another API version also stays: KubeVirt would convert and store
// the content again, and fail because that revision exists.
func (c *Controller) writeRevisionReferences(ctx context.Context, s *state) error {
	reported := s.vm.DeepCopy()
	instancetype, preference := s.revisionReferences()
	for _, reference := range []struct {
		written **v1.InstancetypeStatusRef
		pinned  *v1.InstancetypeStatusRef
	}{{&reported.Status.InstancetypeRef, instancetype}, {&reported.Status.PreferenceRef, preference}} {
		if !namesRevision(reference.pinned) {
			continue
		}
		if namesRevision(*reference.written) {
			upgraded, err := c.resolver().IsUpgraded(ctx, s.vm.Namespace, reference.pinned.ControllerRevisionRef.Name, (*reference.written).ControllerRevisionRef.Name)
			if err != nil {
				return err
			}
			if upgraded {
				continue
			}
		}
		*reference.written = reference.pinned
	}
	if equality.Semantic.DeepEqual(s.vm.Status, reported.Status) {
		return nil
	}
	if err := objects.PatchStatus(ctx, c.Client, reported, s.vm); err != nil {
		return err
	}
	c.ownWrites.Note(reported, s.now)
	return nil
}

// namesRevision reports whether a reference names a revision.
func namesRevision(ref *v1.InstancetypeStatusRef) bool {
	return ref != nil && ref.ControllerRevisionRef != nil
}
