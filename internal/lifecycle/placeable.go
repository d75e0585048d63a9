package lifecycle

import (
	"context"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/placeable"
	"github.com/kilnvm/kiln/internal/placeable/observer"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// judgePlacement sets the verdict of condition Placeable, also of a VM that nobody has started. A VM whose guest runs costs no reads. A VM that is as it was
// judged before costs none, too.
func (s *state) judgePlacement(ctx context.Context, c *Controller) {
	if c.Placement == nil {
		return
	}
	s.keepsPlaceable = true
	key := client.ObjectKeyFromObject(s.vm)
	switch vmi := s.vmi; {
	case vmi == nil:
	case vmi.DeletionTimestamp != nil || vmi.IsFinal():
		return // the guest is about to be gone, and the VM is judged then
	case vmi.Status.Phase == v1.Running:
		c.Placement.Forget(key)
		s.placeable = new(placeable.Runs())
		return
	case vmi.Status.NodeName != "" || vmi.Status.Phase == v1.Scheduled:
		return // the scheduler has chosen a node
	}
	full := func(ctx context.Context) (*v1.VirtualMachine, error) {
		err := c.readFullVM(ctx, s)
		return s.vm, err
	}
	stored := conditionsOfType(s.vm, v1alpha1.ConditionPlaceable)
	verdict, after, err := c.Placement.Judge(ctx, observer.VM{Key: key, Of: s.vm, Full: full, Created: s.vmi != nil && len(s.vmi.Status.ActivePods) > 0,
		Judged: len(stored) > 0 && s.vm.Status.ObservedGeneration == s.vm.Generation})
	switch {
	case err != nil && s.retryable == nil:
		s.retryable = err
	case after > 0:
		s.requeue(after)
	}
	if verdict == nil {
		return
	}
	s.placeable = verdict
	if slices.Contains(unwatchedReasons, verdict.Reason) {
		lasted := time.Duration(0)
		for _, was := range stored {
			if was.Reason == verdict.Reason {
				lasted = s.now.Sub(was.LastTransitionTime.Time)
			}
		}
		c.Placement.MarkStale(key)
		s.requeue(min(max(lasted, minRecheck), maxRecheck))
	}
}

// unwatchedReasons are the reasons of verdicts that may change without an event.
var unwatchedReasons = []string{v1alpha1.ReasonReferenceNotFound, v1alpha1.ReasonUnreadable, v1alpha1.ReasonNotExplicit}

// placeableConditions returns condition Placeable: the stored one if this reconcile has not judged, and none if guests do not run in Kiln's pods.
func (s *state) placeableConditions() []v1.VirtualMachineCondition {
	switch {
	case s.placeable != nil:
		return []v1.VirtualMachineCondition{{Type: v1alpha1.ConditionPlaceable, Status: s.placeable.Status, Reason: s.placeable.Reason,
			Message: s.placeable.Message}}
	case s.keepsPlaceable || s.vm.DeletionTimestamp != nil:
		return conditionsOfType(s.vm, v1alpha1.ConditionPlaceable)
	}
	return nil
}
