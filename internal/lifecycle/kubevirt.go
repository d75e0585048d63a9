package lifecycle

import (
	"context"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// KubeVirt is for clusters in which KubeVirt creates the VMIs of VMs, and writes phases, conditions and requests. guestcontroller.Controller implements it.
type KubeVirt interface {
	// Register adds the controllers of KubeVirt's guests to a manager.
	Register(mgr ctrl.Manager) error
	// SetReferences writes the references to the revisions that a VM is pinned to into the status of the VM. Each may be nil.
	SetReferences(ctx context.Context, resolver resolve.Resolver, vm *v1.VirtualMachine, instancetype, preference *v1.InstancetypeStatusRef) error
}

// finishForKubeVirt ends the reconcile of a VM whose guest KubeVirt runs. It writes only the references in the status, and an event if a pin is missing. The
// event follows the write: a conflict repeats the reconcile, and would repeat the event.
func (c *Controller) finishForKubeVirt(ctx context.Context, s *state) (ctrl.Result, error) {
	var err error
	if s.vm.DeletionTimestamp == nil {
		err = c.writeReferences(ctx, s)
	}
	if s.failure != nil && !apierrors.IsConflict(err) {
		c.recordEvent(s, corev1.EventTypeWarning, s.failure.reason, s.failure.message)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeueAfter}, s.retryable
}

// writeReferences writes the references in the status of a VM if they have changed.
func (c *Controller) writeReferences(ctx context.Context, s *state) error {
	reported := s.vm.DeepCopy()
	instancetype, preference := s.revisionReferences()
	if err := c.KubeVirt.SetReferences(ctx, c.resolver(), reported, instancetype, preference); err != nil {
		return err
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
