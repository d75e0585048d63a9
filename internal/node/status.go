package node

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	bounds "github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hypervisor"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

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

// Explicit reports whether errors of rendering came from an explicit spec: in a spec that is not explicit, fields are Required.
func Explicit(errs field.ErrorList) bool {
	return !slices.ContainsFunc(errs, func(err *field.Error) bool { return err.Type == field.ErrorTypeRequired })
}

// ignoreConflict drops the error of a lost race: another node was faster, or a newer version of the object comes as an event.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
