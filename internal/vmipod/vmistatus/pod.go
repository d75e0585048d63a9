package vmistatus

import (
	"fmt"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	corev1 "k8s.io/api/core/v1"
)

// QuietStart is the time that kubelet has to start the container of a pod before the status says that it has not. Large images take longer, which is worth a
// condition too.
const QuietStart = 30 * time.Second

// waitingReasons maps kubelet's reasons for a container that does not start without help to the reason on the VMI.
var waitingReasons = map[string]string{
	v1alpha1.ReasonErrImagePull:               v1alpha1.ReasonErrImagePull,
	v1alpha1.ReasonImagePullBackOff:           v1alpha1.ReasonImagePullBackOff,
	v1alpha1.ReasonInvalidImageName:           v1alpha1.ReasonInvalidImageName,
	v1alpha1.ReasonErrImageNeverPull:          v1alpha1.ReasonErrImageNeverPull,
	v1alpha1.ReasonCreateContainerConfigError: v1alpha1.ReasonCreateContainerConfigError,
	v1alpha1.ReasonCreateContainerError:       v1alpha1.ReasonCreateContainerError,
	"RunContainerError":                       v1alpha1.ReasonCreateContainerError,
}

// podWaitCause returns why the container of a pod does not run, in the words of scheduler and kubelet: nil if it runs or is about to. It also returns after
// which time the answer may change without an event. Why volumes are not mounted is only in events, see Report.MountFailure.
func podWaitCause(pod *corev1.Pod, now time.Time) (*condition.Cause, time.Duration) {
	scheduled := observed.PodCondition(pod, corev1.PodScheduled)
	if pod.Spec.NodeName == "" {
		if scheduled == nil || scheduled.Status != corev1.ConditionFalse {
			return nil, 0
		}
		cause := &condition.Cause{Reason: v1alpha1.ReasonUnschedulable, Message: scheduled.Message}
		if scheduled.Reason == corev1.PodReasonSchedulingGated {
			cause.Reason = v1alpha1.ReasonSchedulingGated
		}
		return cause, 0
	}
	container := observed.Container(pod)
	if container != nil && container.State.Waiting == nil {
		return nil, 0
	}
	state := "its status is not known yet"
	if container != nil {
		state = container.State.Waiting.Reason
		if reason := waitingReasons[state]; reason != "" {
			return &condition.Cause{Reason: reason, Message: container.State.Waiting.Message}, 0
		}
		state = strings.TrimSpace(state + " " + container.State.Waiting.Message)
	}
	if scheduled == nil {
		return nil, 0
	}
	if left := QuietStart - now.Sub(scheduled.LastTransitionTime.Time); left > 0 {
		return nil, min(left, QuietStart) // a clock that is behind must not make the wait longer
	}
	return &condition.Cause{Reason: v1alpha1.ReasonPodStarting, Message: fmt.Sprintf(
		"kubelet has not started the container for more than %s (%s): kubectl describe pod -n %s %s",
		QuietStart, state, pod.Namespace, pod.Name)}, 0
}

// StartsLate reports whether kubelet has not started the container of the pod within QuietStart, and the pod's status does not say why.
func StartsLate(o observed.Objects, now time.Time) bool {
	pod := o.RecordedPod()
	if pod == nil {
		return false
	}
	cause, _ := podWaitCause(pod, now)
	return cause != nil && cause.Reason == v1alpha1.ReasonPodStarting
}

// nodeLostAfter is the time after the grace period of a pod's deletion after which its node counts as one that does not answer.
const nodeLostAfter = 30 * time.Second

// nodeLostCause returns that the node of a pod does not answer, nil if it does as far as is known. It also returns after which time the answer may change
// without an event.
func nodeLostCause(pod *corev1.Pod, now time.Time) (*condition.Cause, time.Duration) {
	if pod.Spec.NodeName == "" {
		return nil, 0
	}
	what := strings.TrimSpace(pod.Status.Message)
	if pod.Status.Reason != v1alpha1.ReasonNodeLost {
		if pod.DeletionTimestamp == nil {
			return nil, 0
		}
		if left := pod.DeletionTimestamp.Add(nodeLostAfter).Sub(now); left > 0 { // deletionTimestamp is the end of the grace period
			return nil, left
		}
		what = fmt.Sprintf("node '%s' has not ended the pod within its grace period", pod.Spec.NodeName)
	}
	return &condition.Cause{Reason: v1alpha1.ReasonNodeLost, Message: what + ": the guest may still run there. If the machine is certainly off, " +
		"taint the node with " + corev1.TaintNodeOutOfService + ": the VM then starts elsewhere"}, 0
}
