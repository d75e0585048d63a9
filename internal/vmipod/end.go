package vmipod

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// end returns the final phase of a VMI whose pod has ended or is gone, and why. As in KubeVirt, a guest that powers off has succeeded, and so has one that
// its owner stops. What ends the pod from outside counts more than what became of the guest then: it asks for another start elsewhere.
func (s seen) end() (v1.VirtualMachineInstancePhase, condition.Cause) {
	deleted, ran, domain := s.vmi.DeletionTimestamp != nil, s.vmi.Status.Phase == v1.Running, s.domain()
	outside := s.fromOutside()
	switch {
	case outside != nil && !deleted:
		return v1.Failed, *outside
	case domain != nil && domain.State == v1alpha1.GuestPoweredOff:
		return v1.Succeeded, reported(domain)
	case domain != nil && domain.State == v1alpha1.GuestDestroyed && deleted:
		return v1.Succeeded, condition.CauseStopped
	case domain != nil && final(domain.State):
		return v1.Failed, reported(domain)
	case !ran && domain == nil && deleted:
		return v1.Failed, condition.NeverStarted(s.vmi)
	case deleted && s.pod != nil && s.pod.Status.Phase == corev1.PodSucceeded:
		return v1.Succeeded, condition.Cause{Reason: v1alpha1.ReasonStopped, Message: "the pod was stopped, and its launcher has not reported how the guest ended"}
	}
	return v1.Failed, s.podEnd()
}

// setRun records phase Running of a guest that was started and has ended while no controller looked: hardware records count boots by it, and back-offs the
// time since. That is the start of the container, by kubelet's clock.
func (s seen) setRun(vmi *v1.VirtualMachineInstance) {
	if vmi.Status.Phase == v1.Running {
		return
	}
	condition.SetPhase(vmi, v1.Running)
	if s.pod == nil {
		return
	}
	if container := containerOf(s.pod); container != nil && container.State.Terminated != nil && !container.State.Terminated.StartedAt.IsZero() {
		transitions := vmi.Status.PhaseTransitionTimestamps
		transitions[len(transitions)-1].PhaseTransitionTimestamp = container.State.Terminated.StartedAt
	}
}

// outsideReasons are the reasons of pods (status.reason) that were ended by their node or the cluster.
var outsideReasons = map[string]string{
	v1alpha1.ReasonEvicted: v1alpha1.ReasonEvicted, v1alpha1.ReasonNodeLost: v1alpha1.ReasonNodeLost,
	v1alpha1.ReasonDeadlineExceeded: v1alpha1.ReasonDeadlineExceeded,
	"NodeShutdown":                  v1alpha1.ReasonEndedWithHost, "Terminated": v1alpha1.ReasonEndedWithHost, "Shutdown": v1alpha1.ReasonEndedWithHost,
	"NodeAffinity": v1alpha1.ReasonPodRejected, "UnexpectedAdmissionError": v1alpha1.ReasonPodRejected,
}

// fromOutside returns what ended the pod from outside, nil if nothing did.
func (s seen) fromOutside() *condition.Cause {
	if s.pod == nil {
		return nil
	}
	status := &s.pod.Status
	message := cmp.Or(strings.TrimSpace(status.Message), status.Reason)
	rejected := strings.HasPrefix(status.Reason, "OutOf") || status.Reason == "TopologyAffinityError"
	disrupted := podCondition(s.pod, corev1.DisruptionTarget)
	switch {
	case s.nodeOut && !s.facts().podEnded:
		return &condition.Cause{Reason: v1alpha1.ReasonNodeLost, Message: fmt.Sprintf("node '%s' is out of service", s.pod.Spec.NodeName)}
	case outsideReasons[status.Reason] != "":
		return &condition.Cause{Reason: outsideReasons[status.Reason], Message: message}
	case rejected && status.Phase == corev1.PodFailed:
		return &condition.Cause{Reason: v1alpha1.ReasonPodRejected, Message: message}
	case disrupted != nil && disrupted.Status == corev1.ConditionTrue && disrupted.Reason == "DeletionByPodGC": // the node was deleted, or is out of service
		return &condition.Cause{Reason: v1alpha1.ReasonNodeLost, Message: disrupted.Message}
	case disrupted != nil && disrupted.Status == corev1.ConditionTrue:
		return &condition.Cause{Reason: v1alpha1.ReasonDisrupted, Message: describeDisruption(disrupted)}
	case s.pod.DeletionTimestamp != nil && s.pod.Spec.NodeName != "":
		return &condition.Cause{Reason: v1alpha1.ReasonPodDeleted, Message: "somebody deleted the pod" + describeExit(s.pod)}
	}
	if ended := terminated(s.pod); ended != nil && ended.Reason == v1alpha1.ReasonOOMKilled {
		return &condition.Cause{Reason: v1alpha1.ReasonOOMKilled, Message: "the pod's container exceeded its memory limit"}
	}
	return nil
}

// disruptions are what Kubernetes' reasons of condition DisruptionTarget mean.
var disruptions = map[string]string{
	"EvictionByEvictionAPI":               "the pod was evicted by the API, as 'kubectl drain' does",
	corev1.PodReasonPreemptionByScheduler: "the pod was preempted",
	corev1.PodReasonTerminationByKubelet:  "kubelet ended the pod",
	"DeletionByTaintManager":              "a taint of its node ended the pod",
}

// describeDisruption returns who ended a pod, and the words of who did.
func describeDisruption(disrupted *corev1.PodCondition) string {
	what := cmp.Or(disruptions[disrupted.Reason], disrupted.Reason)
	if said := strings.TrimSpace(disrupted.Message); said != "" {
		what += " (" + said + ")"
	}
	return what
}

// podEnd returns how a pod ended whose launcher has reported no end of the guest.
func (s seen) podEnd() condition.Cause {
	switch {
	case s.pod == nil:
		return condition.Cause{Reason: v1alpha1.ReasonPodGone,
			Message: "the pod was deleted, and its finalizer removed by hand: whether its guest has ended is not known"}
	case s.pod.Spec.NodeName == "":
		return condition.Cause{Reason: v1alpha1.ReasonPodGone, Message: "the pod was deleted before a node was found for it"}
	}
	message := "the pod ended, and its launcher has not reported how the guest did" + describeExit(s.pod)
	if ended := terminated(s.pod); ended != nil {
		if last := strings.TrimSpace(plain(ended.Message)); last != "" && ended.ExitCode != killed {
			message += ": " + last
		}
	} else if said := strings.TrimSpace(s.pod.Status.Reason + " " + s.pod.Status.Message); said != "" {
		message += ": " + said
	}
	return condition.Cause{Reason: v1alpha1.ReasonPodEnded, Message: message}
}

// killed is the exit code of a process that SIGKILL has ended. The last lines of its log have nothing to do with its end.
const killed = 128 + 9

// describeExit returns how the container of a pod has ended, in brackets, and empty if nobody knows.
func describeExit(pod *corev1.Pod) string {
	ended := terminated(pod)
	if ended == nil {
		return ""
	}
	return fmt.Sprintf(" (%s, exit code %d)", cmp.Or(ended.Reason, "ended"), ended.ExitCode)
}

// terminated returns how the container of a pod ended, nil if it has not, or nobody knows.
func terminated(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	container := containerOf(pod)
	if container == nil {
		return nil
	}
	return container.State.Terminated
}
