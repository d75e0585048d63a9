package node

import (
	"context"
	"errors"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Only functions of this file write the status of a VMI, except for the claim.

// observation is the state of a VMI's domain to report.
type observation struct {
	hypervisor.Status
	// policy is the condition HostPolicyChanged. nil keeps the VMI's condition, and status False removes it.
	policy *v1.VirtualMachineInstanceCondition
}

// resyncInterval is the time between two reads of an active domain's state without an event. Events report each change of state, and every domain is read
// when a stream of events begins. But the removal of a domain's mark causes no event, and HostProfiles are not watched if their kind was installed after the
// start of the launcher.
const resyncInterval = time.Minute

// reportStatus writes the observed state of a domain into its VMI. If the domain has ended, the VMI gets its final phase.
func (n *Node) reportStatus(ctx context.Context, vmi *v1.VirtualMachineInstance, seen observation) (ctrl.Result, error) {
	switch {
	case seen.State == hypervisor.PoweredOff:
		return ctrl.Result{}, n.reportEnd(ctx, vmi, v1.Succeeded, condition.Cause(seen.Cause))
	case !seen.Active():
		return ctrl.Result{}, n.reportEnd(ctx, vmi, v1.Failed, condition.Cause(seen.Cause))
	}
	before := vmi.Status.DeepCopy()
	if vmi.Status.Machine == nil {
		vmi.Status.Machine = &v1.Machine{Type: seen.Machine}
	}
	switch {
	case seen.policy == nil:
	case seen.policy.Status == corev1.ConditionTrue:
		condition.Set(vmi, *seen.policy)
	default:
		condition.Clear(vmi, seen.policy.Type)
	}
	condition.SetPhase(vmi, v1.Running)
	condition.SetSynchronized(vmi, corev1.ConditionTrue, condition.Cause{Reason: v1alpha1.ReasonStarted})
	if seen.State == hypervisor.Paused {
		condition.SetPaused(vmi, condition.Cause(seen.Cause))
	} else {
		condition.SetRunning(vmi)
	}
	if equality.Semantic.DeepEqual(*before, vmi.Status) {
		return ctrl.Result{RequeueAfter: resyncInterval}, nil
	}
	return ctrl.Result{RequeueAfter: resyncInterval}, n.Status().Update(ctx, vmi)
}

// retryInterval is the time to the next attempt of a refused start. No event reports that the cause of a refusal is gone, such as a missing file.
const retryInterval = 15 * time.Second

// reportRefusal writes a refusal into the VMI's conditions and schedules the next attempt. The VMI stays claimed. It returns errors that are not refusals.
func (n *Node) reportRefusal(ctx context.Context, vmi *v1.VirtualMachineInstance, err error) (ctrl.Result, error) {
	why := guest.RefusalOf(err)
	switch {
	case errors.Is(err, errNotClaimed):
		return ctrl.Result{}, nil
	case errors.Is(err, errHardwareAwaited):
		return ctrl.Result{RequeueAfter: retryInterval}, nil
	case why == nil:
		return ctrl.Result{}, err
	}
	if taken := (*hypervisor.TakenError)(nil); errors.As(err, &taken) && taken.By != nil {
		guest.WakeReceiver(n.strayInTheWay)
	}
	condition.SetRefused(vmi, condition.Cause{Reason: why.Reason, Message: why.Message})
	return ctrl.Result{RequeueAfter: retryInterval}, n.Status().Update(ctx, vmi)
}

// reportEnd gives a VMI its final phase, with the reason in condition Ready and in an event. The event follows the update, because a repeated update must not
// repeat the event. status.running is removed before, because a VMI in its final phase is not reconciled again.
func (n *Node) reportEnd(ctx context.Context, vmi *v1.VirtualMachineInstance, phase v1.VirtualMachineInstancePhase, why condition.Cause) error {
	if err := n.forgetRunning(ctx, vmi); err != nil {
		return err
	}
	condition.SetEnd(vmi, phase, why)
	if err := n.Status().Update(ctx, vmi); err != nil {
		return err
	}
	n.Events.Eventf(vmi, nil, condition.EndEvent(phase, why), why.Reason, "Reconcile", "%s", condition.Note(why.Message))
	return nil
}
