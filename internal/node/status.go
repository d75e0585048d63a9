package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	bounds "github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Only functions of this file write the status of a VMI, except for the claim.

// observed is what a report of a VMI is made of.
type observed struct {
	hypervisor.Status
	// policy is the condition HostPolicyChanged: nil leaves that of the VMI as it is, status False removes it.
	policy *v1.VirtualMachineInstanceCondition
}

// resyncInterval is the time between two reads of an active domain's state without an event. Events report each change of state, and every
// domain is read when a stream of events begins. But removing a domain's mark causes no event, and HostProfiles are not watched if their kind
// was installed after the launcher started.
const resyncInterval = time.Minute

// report writes what was observed of a domain into its VMI.
func (n *Node) report(ctx context.Context, vmi *v1.VirtualMachineInstance, seen observed) (ctrl.Result, error) {
	switch {
	case seen.State == hypervisor.PoweredOff:
		return ctrl.Result{}, n.end(ctx, vmi, v1.Succeeded, seen.Cause)
	case !seen.Active():
		return ctrl.Result{}, n.end(ctx, vmi, v1.Failed, seen.Cause)
	}
	before := vmi.Status.DeepCopy()
	if vmi.Status.Machine == nil {
		vmi.Status.Machine = &v1.Machine{Type: seen.Machine}
	}
	switch {
	case seen.policy == nil:
	case seen.policy.Status == corev1.ConditionTrue:
		setCondition(vmi, *seen.policy)
	default:
		clearCondition(vmi, seen.policy.Type)
	}
	setPhase(vmi, v1.Running)
	setSynchronized(vmi, corev1.ConditionTrue, v1alpha1.ReasonStarted, "")
	setActive(vmi, seen.Status)
	if equality.Semantic.DeepEqual(*before, vmi.Status) {
		return ctrl.Result{RequeueAfter: resyncInterval}, nil
	}
	return ctrl.Result{RequeueAfter: resyncInterval}, n.Status().Update(ctx, vmi)
}

// retryInterval is the time to the next attempt of a refused start: no event reports that, for example, a missing file has appeared.
const retryInterval = 15 * time.Second

// refused writes a refusal into the VMI's conditions and schedules the next attempt. The VMI stays claimed. Other errors are returned.
func (n *Node) refused(ctx context.Context, vmi *v1.VirtualMachineInstance, err error) (ctrl.Result, error) {
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
		signal(n.strayInTheWay)
	}
	setSynchronized(vmi, corev1.ConditionFalse, why.Reason, why.Message)
	setReady(vmi, corev1.ConditionFalse, hypervisor.Cause{Reason: why.Reason})
	return ctrl.Result{RequeueAfter: retryInterval}, n.Status().Update(ctx, vmi)
}

// end gives a VMI its final phase, with the reason in Ready and in an event. The event comes after the update: a repeated update must not repeat it.
func (n *Node) end(ctx context.Context, vmi *v1.VirtualMachineInstance, phase v1.VirtualMachineInstancePhase, why hypervisor.Cause) error {
	setPhase(vmi, phase)
	setReady(vmi, corev1.ConditionFalse, why)
	clearCondition(vmi, v1.VirtualMachineInstancePaused)
	if err := n.Status().Update(ctx, vmi); err != nil {
		return err
	}
	kind := corev1.EventTypeNormal
	if phase == v1.Failed || why == guest.CauseStopped {
		kind = corev1.EventTypeWarning
	}
	n.Events.Eventf(vmi, nil, kind, why.Reason, "Reconcile", "%s", bounds.Note(why.Message))
	return nil
}

// setPhase moves the VMI to a phase and records the time.
func setPhase(vmi *v1.VirtualMachineInstance, phase v1.VirtualMachineInstancePhase) {
	if vmi.Status.Phase == phase {
		return
	}
	vmi.Status.Phase = phase
	vmi.Status.PhaseTransitionTimestamps = append(vmi.Status.PhaseTransitionTimestamps,
		v1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: phase, PhaseTransitionTimestamp: metav1.Now()})
}

// setCondition writes a condition with a message of bounded length. Its transition time changes with its status only.
func setCondition(vmi *v1.VirtualMachineInstance, condition v1.VirtualMachineInstanceCondition) {
	condition.LastTransitionTime, condition.Message = metav1.Now(), bounds.Message(condition.Message)
	i := slices.IndexFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		vmi.Status.Conditions = append(vmi.Status.Conditions, condition)
		return
	}
	if vmi.Status.Conditions[i].Status == condition.Status {
		condition.LastTransitionTime = vmi.Status.Conditions[i].LastTransitionTime
	}
	vmi.Status.Conditions[i] = condition
}

// clearCondition removes a condition.
func clearCondition(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) {
	vmi.Status.Conditions = slices.DeleteFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool { return c.Type == kind })
}

// setSynchronized writes whether the domain runs as the spec says, and if not, why.
func setSynchronized(vmi *v1.VirtualMachineInstance, status corev1.ConditionStatus, reason, message string) {
	setCondition(vmi, v1.VirtualMachineInstanceCondition{
		Type: v1.VirtualMachineInstanceSynchronized, Status: status, Reason: reason, Message: message})
}

// setReady writes whether the guest can be used, and if not, why.
func setReady(vmi *v1.VirtualMachineInstance, status corev1.ConditionStatus, why hypervisor.Cause) {
	setCondition(vmi, v1.VirtualMachineInstanceCondition{
		Type: v1.VirtualMachineInstanceReady, Status: status, Reason: why.Reason, Message: why.Message})
}

// setActive writes Ready and Paused of a VMI whose domain is active.
func setActive(vmi *v1.VirtualMachineInstance, status hypervisor.Status) {
	if status.State != hypervisor.Paused {
		clearCondition(vmi, v1.VirtualMachineInstancePaused)
		setReady(vmi, corev1.ConditionTrue, hypervisor.Cause{Reason: v1alpha1.ReasonStarted})
		return
	}
	setReady(vmi, corev1.ConditionFalse, status.Cause)
	setCondition(vmi, v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstancePaused, Status: corev1.ConditionTrue,
		Reason: status.Cause.Reason, Message: status.Cause.Message})
}
