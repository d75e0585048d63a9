package vmistatus

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// SetFinal writes the final phase of a VMI whose pod has ended or is gone into a copy of the VMI, and returns the phase and its cause.
func SetFinal(vmi *v1.VirtualMachineInstance, o observed.Objects) (v1.VirtualMachineInstancePhase, condition.Cause) {
	phase, cause := finalPhase(o)
	if o.Pod != nil {
		setPod(vmi, o.Pod)
	}
	if o.Domain() != nil {
		setStarted(vmi, o.Pod)
	}
	setAgent(vmi, nil)
	setCredentials(vmi, nil)
	Report{Objects: o}.setPendingChanges(vmi)
	condition.SetEnd(vmi, phase, cause)
	return phase, cause
}

// finalPhase returns the final phase of a VMI whose pod has ended or is gone, and why. As in KubeVirt, the phase is Succeeded if the guest has powered off or
// was stopped by its owner. A cause from outside comes before the state of the guest, because it asks for another start elsewhere.
func finalPhase(o observed.Objects) (v1.VirtualMachineInstancePhase, condition.Cause) {
	deleted, ran, domain := o.VMI.DeletionTimestamp != nil, o.VMI.Status.Phase == v1.Running, o.Domain()
	outside := causeFromOutside(o)
	switch {
	case outside != nil && !deleted:
		return v1.Failed, *outside
	case domain != nil && domain.State == v1alpha1.GuestPoweredOff:
		return v1.Succeeded, domainCause(domain)
	case domain != nil && domain.State == v1alpha1.GuestDestroyed && deleted:
		return v1.Succeeded, condition.CauseStopped
	case domain != nil && observed.HasEnded(domain.State):
		return v1.Failed, domainCause(domain)
	case !ran && domain == nil && deleted:
		return v1.Failed, condition.NeverStarted(o.VMI)
	case deleted && o.Pod != nil && o.Pod.Status.Phase == corev1.PodSucceeded:
		return v1.Succeeded, condition.Cause{Reason: v1alpha1.ReasonStopped, Message: "the pod was stopped, and its launcher has not reported how the guest ended"}
	}
	return v1.Failed, podEndCause(o.Pod)
}

// setStarted writes phase Running of a guest that has started and ended while no controller watched: hardware records count boots by this phase, and back-offs
// measure time since. The time is the start of the container, by kubelet's clock.
func setStarted(vmi *v1.VirtualMachineInstance, pod *corev1.Pod) {
	if vmi.Status.Phase == v1.Running {
		return
	}
	condition.SetPhase(vmi, v1.Running)
	if pod == nil {
		return
	}
	if ended := terminatedState(pod); ended != nil && !ended.StartedAt.IsZero() {
		transitions := vmi.Status.PhaseTransitionTimestamps
		transitions[len(transitions)-1].PhaseTransitionTimestamp = ended.StartedAt
	}
}

// outsideReasons maps status.reason of pods that their node or the cluster ended to the reason on the VMI.
var outsideReasons = map[string]string{
	v1alpha1.ReasonEvicted: v1alpha1.ReasonEvicted, v1alpha1.ReasonNodeLost: v1alpha1.ReasonNodeLost,
	v1alpha1.ReasonDeadlineExceeded: v1alpha1.ReasonDeadlineExceeded,
	"NodeShutdown":                  v1alpha1.ReasonEndedWithHost, "Terminated": v1alpha1.ReasonEndedWithHost, "Shutdown": v1alpha1.ReasonEndedWithHost,
	"NodeAffinity": v1alpha1.ReasonPodRejected, "UnexpectedAdmissionError": v1alpha1.ReasonPodRejected,
}

// causeFromOutside returns what ended the pod from outside, nil if nothing did.
func causeFromOutside(o observed.Objects) *condition.Cause {
	if o.Pod == nil {
		return nil
	}
	status := &o.Pod.Status
	message := cmp.Or(strings.TrimSpace(status.Message), status.Reason)
	rejected := strings.HasPrefix(status.Reason, "OutOf") || status.Reason == "TopologyAffinityError"
	disrupted := observed.PodCondition(o.Pod, corev1.DisruptionTarget)
	switch {
	case o.NodeOutOfService && !observed.PodEnded(o.Pod):
		return &condition.Cause{Reason: v1alpha1.ReasonNodeLost, Message: fmt.Sprintf("node '%s' is out of service", o.Pod.Spec.NodeName)}
	case outsideReasons[status.Reason] != "":
		return &condition.Cause{Reason: outsideReasons[status.Reason], Message: message}
	case rejected && status.Phase == corev1.PodFailed:
		return &condition.Cause{Reason: v1alpha1.ReasonPodRejected, Message: message}
	case disrupted != nil && disrupted.Status == corev1.ConditionTrue && disrupted.Reason == "DeletionByPodGC": // the node was deleted, or is out of service
		return &condition.Cause{Reason: v1alpha1.ReasonNodeLost, Message: disrupted.Message}
	case disrupted != nil && disrupted.Status == corev1.ConditionTrue:
		return &condition.Cause{Reason: v1alpha1.ReasonDisrupted, Message: describeDisruption(disrupted)}
	case o.Pod.DeletionTimestamp != nil && o.Pod.Spec.NodeName != "":
		return &condition.Cause{Reason: v1alpha1.ReasonPodDeleted, Message: "somebody deleted the pod" + describeExit(o.Pod)}
	}
	if ended := terminatedState(o.Pod); ended != nil && ended.Reason == v1alpha1.ReasonOOMKilled {
		return &condition.Cause{Reason: v1alpha1.ReasonOOMKilled, Message: "the pod's container exceeded its memory limit"}
	}
	return nil
}

// disruptions explain the reasons that Kubernetes writes into condition DisruptionTarget.
var disruptions = map[string]string{
	"EvictionByEvictionAPI":               "the pod was evicted by the API, as 'kubectl drain' does",
	corev1.PodReasonPreemptionByScheduler: "the pod was preempted",
	corev1.PodReasonTerminationByKubelet:  "kubelet ended the pod",
	"DeletionByTaintManager":              "a taint of its node ended the pod",
}

// describeDisruption returns what ended a pod, with the message of the condition in brackets.
func describeDisruption(disrupted *corev1.PodCondition) string {
	return withDetail(cmp.Or(disruptions[disrupted.Reason], disrupted.Reason), strings.TrimSpace(disrupted.Message))
}

// podEndCause returns how a pod ended whose launcher has not reported the end of the guest. The pod is nil if it is gone.
func podEndCause(pod *corev1.Pod) condition.Cause {
	switch {
	case pod == nil:
		return condition.Cause{Reason: v1alpha1.ReasonPodGone,
			Message: "the pod was deleted, and its finalizer removed by hand: whether its guest has ended is not known"}
	case pod.Spec.NodeName == "":
		return condition.Cause{Reason: v1alpha1.ReasonPodGone, Message: "the pod was deleted before a node was found for it"}
	}
	message := "the pod ended, and its launcher has not reported how the guest ended" + describeExit(pod)
	if ended := terminatedState(pod); ended != nil {
		if last := strings.TrimSpace(condition.OneLine(ended.Message)); last != "" && ended.ExitCode != exitCodeKilled {
			message += ": " + last
		}
	} else if reported := strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message); reported != "" {
		message += ": " + reported
	}
	return condition.Cause{Reason: v1alpha1.ReasonPodEnded, Message: message}
}

// exitCodeKilled is the exit code of a process that SIGKILL has ended. The last lines of its log do not explain its end.
const exitCodeKilled = 128 + 9

// describeExit returns how the container of a pod has ended, in brackets, or nothing if that is not known.
func describeExit(pod *corev1.Pod) string {
	ended := terminatedState(pod)
	if ended == nil {
		return ""
	}
	return fmt.Sprintf(" (%s, exit code %d)", cmp.Or(ended.Reason, "ended"), ended.ExitCode)
}

// terminatedState returns how the container of a pod ended, nil if the container has not ended or that is not known.
func terminatedState(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	container := observed.Container(pod)
	if container == nil {
		return nil
	}
	return container.State.Terminated
}
