package lifecycle

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Beside KubeVirt, its virt-controller makes the VMIs, and writes phases, conditions and requests. Kiln's controller writes no VMI, and of a VM's status the
// references to the revisions that it is pinned to: virt-controller expands the revision that status.instancetypeRef and status.preferenceRef name, and stores
// one of its own only where they name none. So the pin is what the guest gets.
// KubeVirt: pkg/instancetype/controller/vm and pkg/instancetype/revision, v1.9.

// besideKubeVirt ends a reconcile of a VM that is pinned: it writes the references, and an event about what is missing. A conflict repeats the reconcile, and
// would repeat the event: the event follows the write.
func (c *Controller) besideKubeVirt(ctx context.Context, s *state) (ctrl.Result, error) {
	var err error
	if s.vm.DeletionTimestamp == nil {
		err = c.refer(ctx, s)
	}
	if s.failure != nil && !apierrors.IsConflict(err) {
		c.event(s, corev1.EventTypeWarning, s.failure.reason, s.failure.message)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeueAfter}, s.retryable
}

// refer writes the status references of a VM to its pins. A matcher without a pin keeps the reference that KubeVirt has written: the pin will be derived from
// it. So does one whose reference is to the content of the pin in another version of the API: KubeVirt would store that again, and fail because it exists.
func (c *Controller) refer(ctx context.Context, s *state) error {
	reported := s.vm.DeepCopy()
	instancetype, preference := s.references()
	for _, of := range []struct {
		written **v1.InstancetypeStatusRef
		pinned  *v1.InstancetypeStatusRef
	}{{&reported.Status.InstancetypeRef, instancetype}, {&reported.Status.PreferenceRef, preference}} {
		if !named(of.pinned) {
			continue
		}
		if named(*of.written) {
			upgraded, err := c.resolver().Upgraded(ctx, s.vm.Namespace, of.pinned.ControllerRevisionRef.Name, (*of.written).ControllerRevisionRef.Name)
			if err != nil {
				return err
			}
			if upgraded {
				continue
			}
		}
		*of.written = of.pinned
	}
	if equality.Semantic.DeepEqual(s.vm.Status, reported.Status) {
		return nil
	}
	if err := c.Client.Status().Patch(ctx, reported, client.MergeFromWithOptions(s.vm, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	c.written.Note(reported, s.now)
	return nil
}

// named reports whether a reference names a revision.
func named(ref *v1.InstancetypeStatusRef) bool { return ref != nil && ref.ControllerRevisionRef != nil }
