package condition

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Phases and conditions of VMIs have the same words whoever writes them: the launcher of a bare machine, or the controller for guests in pods.

// Cause is the reason and message of a condition or event.
type Cause struct{ Reason, Message string }

// Causes of the end of a VMI that do not come from libvirt.
var (
	causeNeverStarted = Cause{Reason: v1alpha1.ReasonNeverStarted, Message: "the domain was never started"}
	// CauseStarting is of a guest that nothing is known to keep from starting.
	CauseStarting = Cause{Reason: v1alpha1.ReasonGuestNotRunning, Message: "the guest is not running yet"}
	// CauseStopped is of a VMI that was deleted, and whose guest did not power off.
	CauseStopped = Cause{Reason: v1alpha1.ReasonStopped,
		Message: "the guest did not power off within spec.terminationGracePeriodSeconds; its domain was destroyed"}
)

// fromOutside are the reasons of Ready on VMIs whose guests did not fail: their pods or nodes were taken away. ReasonEndedWithHost is none: launchers report
// it. Nor is ReasonEvicted: a guest that fills its disks is evicted by kubelet, and would again be at once.
var fromOutside = []string{v1alpha1.ReasonDisrupted, v1alpha1.ReasonNodeLost, v1alpha1.ReasonPodDeleted}

// IsFromOutside reports whether a reason of the end of a VMI says that the cluster, or a person, ended the guest, and not the guest itself.
func IsFromOutside(reason string) bool { return slices.Contains(fromOutside, reason) }

// NeverStarted returns the cause of the end of a VMI whose domain was never started, with what condition Synchronized says about that.
func NeverStarted(vmi *v1.VirtualMachineInstance) Cause {
	why := causeNeverStarted
	if c := Of(vmi, v1.VirtualMachineInstanceSynchronized); c != nil && c.Status == corev1.ConditionFalse {
		why.Message += ": " + c.Message
	}
	return why
}

// NotRendered returns NotExplicit or NotRenderable for the errors of stages 2 and 3.
func NotRendered(errs field.ErrorList) Cause {
	if !Explicit(errs) {
		return Cause{Reason: v1alpha1.ReasonNotExplicit, Message: Mistakes(errs)}
	}
	return Cause{Reason: v1alpha1.ReasonNotRenderable, Message: Mistakes(errs)}
}

// Explicit reports whether errors of rendering came from an explicit spec: in a spec that is not explicit, fields are Required.
func Explicit(errs field.ErrorList) bool {
	return !slices.ContainsFunc(errs, func(err *field.Error) bool { return err.Type == field.ErrorTypeRequired })
}

// Of returns a condition of a VMI, nil if it has none of this type.
func Of(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) *v1.VirtualMachineInstanceCondition {
	i := slices.IndexFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &vmi.Status.Conditions[i]
}

// SetPhase moves the VMI to a phase and records the time.
func SetPhase(vmi *v1.VirtualMachineInstance, phase v1.VirtualMachineInstancePhase) {
	if vmi.Status.Phase == phase {
		return
	}
	vmi.Status.Phase = phase
	vmi.Status.PhaseTransitionTimestamps = append(vmi.Status.PhaseTransitionTimestamps,
		v1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: phase, PhaseTransitionTimestamp: metav1.Now()})
}

// Set writes a condition with a message of bounded length. Its transition time changes with its status only.
func Set(vmi *v1.VirtualMachineInstance, condition v1.VirtualMachineInstanceCondition) {
	condition.LastTransitionTime, condition.Message = metav1.Now(), Message(condition.Message)
	was := Of(vmi, condition.Type)
	if was == nil {
		vmi.Status.Conditions = append(vmi.Status.Conditions, condition)
		return
	}
	if was.Status == condition.Status {
		condition.LastTransitionTime = was.LastTransitionTime
	}
	*was = condition
}

// Clear removes a condition.
func Clear(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) {
	vmi.Status.Conditions = slices.DeleteFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool { return c.Type == kind })
}

// SetSynchronized writes whether the domain runs as the spec says, and if not, why.
func SetSynchronized(vmi *v1.VirtualMachineInstance, status corev1.ConditionStatus, why Cause) {
	Set(vmi, v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstanceSynchronized, Status: status, Reason: why.Reason, Message: why.Message})
}

// SetReady writes whether the guest can be used, and if not, why.
func SetReady(vmi *v1.VirtualMachineInstance, status corev1.ConditionStatus, why Cause) {
	Set(vmi, v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstanceReady, Status: status, Reason: why.Reason, Message: why.Message})
}

// SetRunning writes Ready and Paused of a VMI whose domain runs.
func SetRunning(vmi *v1.VirtualMachineInstance) {
	Clear(vmi, v1.VirtualMachineInstancePaused)
	SetReady(vmi, corev1.ConditionTrue, Cause{Reason: v1alpha1.ReasonStarted})
}

// SetPaused writes Ready and Paused of a VMI whose domain is paused.
func SetPaused(vmi *v1.VirtualMachineInstance, why Cause) {
	SetReady(vmi, corev1.ConditionFalse, why)
	Set(vmi, v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstancePaused, Status: corev1.ConditionTrue, Reason: why.Reason, Message: why.Message})
}

// SetRefused writes that the VMI's guest does not start, and why.
func SetRefused(vmi *v1.VirtualMachineInstance, why Cause) {
	SetSynchronized(vmi, corev1.ConditionFalse, why)
	SetReady(vmi, corev1.ConditionFalse, why)
}

// SetEnd gives a VMI its final phase, with the reason in Ready.
func SetEnd(vmi *v1.VirtualMachineInstance, phase v1.VirtualMachineInstancePhase, why Cause) {
	SetPhase(vmi, phase)
	SetReady(vmi, corev1.ConditionFalse, why)
	Clear(vmi, v1.VirtualMachineInstancePaused)
}

// EndEvent returns the type of the event about the end of a VMI.
func EndEvent(phase v1.VirtualMachineInstancePhase, why Cause) string {
	if phase == v1.Failed || why == CauseStopped {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
