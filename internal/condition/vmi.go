package condition

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// The launcher of a bare machine and the controller write phases and conditions of VMIs with these functions, so that reasons and messages are the same.

// Cause is the reason and message of a condition or event.
type Cause struct{ Reason, Message string }

// Causes of the end of a VMI that do not come from libvirt.
var (
	causeNeverStarted = Cause{Reason: v1alpha1.ReasonNeverStarted, Message: "the domain was never started"}
	// CauseStarting is the cause of a guest that is not running yet for no known reason.
	CauseStarting = Cause{Reason: v1alpha1.ReasonGuestNotRunning, Message: "the guest is not running yet"}
	// CauseStopped is the cause of the end of a deleted VMI whose guest did not power off.
	CauseStopped = Cause{Reason: v1alpha1.ReasonStopped,
		Message: "the guest did not power off within spec.terminationGracePeriodSeconds; its domain was destroyed"}
)

// fromOutside are the reasons of Ready on VMIs whose guests did not fail: their pods or nodes were taken away. ReasonEndedWithHost is not one of them, because
// launchers report it. Nor is ReasonEvicted: kubelet evicts a guest that fills its disks, and would evict its successor at once.
var fromOutside = []string{v1alpha1.ReasonDisrupted, v1alpha1.ReasonNodeLost, v1alpha1.ReasonPodDeleted}

// IsFromOutside reports whether a reason of condition Ready means that the cluster or a person ended the guest.
func IsFromOutside(reason string) bool { return slices.Contains(fromOutside, reason) }

// NeverStarted returns the cause of the end of a VMI whose domain was never started, including the message of condition Synchronized if it is False.
func NeverStarted(vmi *v1.VirtualMachineInstance) Cause {
	why := causeNeverStarted
	if c := Of(vmi, v1.VirtualMachineInstanceSynchronized); c != nil && c.Status == corev1.ConditionFalse {
		why.Message += ": " + c.Message
	}
	return why
}

// NotRendered returns reason NotExplicit or NotRenderable for the errors of stages 2 and 3.
func NotRendered(errs field.ErrorList) Cause {
	if !Explicit(errs) {
		return Cause{Reason: v1alpha1.ReasonNotExplicit, Message: Mistakes(errs)}
	}
	return Cause{Reason: v1alpha1.ReasonNotRenderable, Message: Mistakes(errs)}
}

// Explicit reports whether a VMI was explicit when its domain was rendered. errs are the errors of rendering: a field that is missing in a VMI that is not
// explicit is a Required error.
func Explicit(errs field.ErrorList) bool {
	return !slices.ContainsFunc(errs, func(err *field.Error) bool { return err.Type == field.ErrorTypeRequired })
}

// Of returns the condition of a type of a VMI; nil if the VMI has none.
func Of(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) *v1.VirtualMachineInstanceCondition {
	i := slices.IndexFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &vmi.Status.Conditions[i]
}

// IsTrue reports whether a VMI has a condition with status True.
func IsTrue(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) bool {
	found := Of(vmi, kind)
	return found != nil && found.Status == corev1.ConditionTrue
}

// SetPhase sets the phase of a VMI and records the time of the transition.
func SetPhase(vmi *v1.VirtualMachineInstance, phase v1.VirtualMachineInstancePhase) {
	if vmi.Status.Phase == phase {
		return
	}
	vmi.Status.Phase = phase
	vmi.Status.PhaseTransitionTimestamps = append(vmi.Status.PhaseTransitionTimestamps,
		v1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: phase, PhaseTransitionTimestamp: metav1.Now()})
}

// Set sets a condition with a message of bounded length. Its transition time only changes with its status.
func Set(vmi *v1.VirtualMachineInstance, condition v1.VirtualMachineInstanceCondition) {
	condition.LastTransitionTime, condition.Message = metav1.Now(), Message(condition.Message)
	current := Of(vmi, condition.Type)
	if current == nil {
		vmi.Status.Conditions = append(vmi.Status.Conditions, condition)
		return
	}
	if current.Status == condition.Status {
		condition.LastTransitionTime = current.LastTransitionTime
	}
	*current = condition
}

// Clear removes the condition of a type.
func Clear(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) {
	vmi.Status.Conditions = slices.DeleteFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool { return c.Type == kind })
}

// SetSynchronized sets whether the domain runs as the spec requires, and the reason if not.
func SetSynchronized(vmi *v1.VirtualMachineInstance, status corev1.ConditionStatus, why Cause) {
	Set(vmi, v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstanceSynchronized, Status: status, Reason: why.Reason, Message: why.Message})
}

// SetReady sets whether the guest can be used, and the reason if not.
func SetReady(vmi *v1.VirtualMachineInstance, status corev1.ConditionStatus, why Cause) {
	Set(vmi, v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstanceReady, Status: status, Reason: why.Reason, Message: why.Message})
}

// SetRunning sets Ready and removes Paused on a VMI whose domain runs.
func SetRunning(vmi *v1.VirtualMachineInstance) {
	Clear(vmi, v1.VirtualMachineInstancePaused)
	SetReady(vmi, corev1.ConditionTrue, Cause{Reason: v1alpha1.ReasonStarted})
}

// SetPaused sets Ready to False and Paused to True on a VMI whose domain is paused.
func SetPaused(vmi *v1.VirtualMachineInstance, why Cause) {
	SetReady(vmi, corev1.ConditionFalse, why)
	Set(vmi, v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstancePaused, Status: corev1.ConditionTrue, Reason: why.Reason, Message: why.Message})
}

// SetRefused sets the reason why the guest of a VMI does not start.
func SetRefused(vmi *v1.VirtualMachineInstance, why Cause) {
	SetSynchronized(vmi, corev1.ConditionFalse, why)
	SetReady(vmi, corev1.ConditionFalse, why)
}

// SetEnd sets the final phase of a VMI, with the reason of its end in Ready.
func SetEnd(vmi *v1.VirtualMachineInstance, phase v1.VirtualMachineInstancePhase, why Cause) {
	SetPhase(vmi, phase)
	SetReady(vmi, corev1.ConditionFalse, why)
	Clear(vmi, v1.VirtualMachineInstancePaused)
}

// EndEvent returns the type of the event about the end of a VMI: Normal or Warning.
func EndEvent(phase v1.VirtualMachineInstancePhase, why Cause) string {
	if phase == v1.Failed || why == CauseStopped {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
