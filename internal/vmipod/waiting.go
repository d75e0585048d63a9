package vmipod

import (
	"fmt"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
)

// quietStart is the time that kubelet has to start the container of a bound pod before that is worth a condition. Large images take longer, and that is
// worth one too.
const quietStart = 30 * time.Second

// waitingReasons are the reasons of kubelet for a container that does not start and will not without help.
var waitingReasons = map[string]string{
	v1alpha1.ReasonErrImagePull:               v1alpha1.ReasonErrImagePull,
	v1alpha1.ReasonImagePullBackOff:           v1alpha1.ReasonImagePullBackOff,
	v1alpha1.ReasonInvalidImageName:           v1alpha1.ReasonInvalidImageName,
	v1alpha1.ReasonErrImageNeverPull:          v1alpha1.ReasonErrImageNeverPull,
	v1alpha1.ReasonCreateContainerConfigError: v1alpha1.ReasonCreateContainerConfigError,
	v1alpha1.ReasonCreateContainerError:       v1alpha1.ReasonCreateContainerError,
	"RunContainerError":                       v1alpha1.ReasonCreateContainerError,
}

// waiting returns why the container of a pod does not run, in the words of scheduler and kubelet; nil if it runs or is about to. It also returns the time
// after which that may be worth a condition. Why volumes cannot be mounted is in events alone, see mountFailure.
func waiting(pod *corev1.Pod, now time.Time) (*condition.Cause, time.Duration) {
	scheduled := podCondition(pod, corev1.PodScheduled)
	if pod.Spec.NodeName == "" {
		if scheduled == nil || scheduled.Status != corev1.ConditionFalse {
			return nil, 0
		}
		why := &condition.Cause{Reason: v1alpha1.ReasonUnschedulable, Message: scheduled.Message}
		if scheduled.Reason == corev1.PodReasonSchedulingGated {
			why.Reason = v1alpha1.ReasonSchedulingGated
		}
		return why, 0
	}
	container := containerOf(pod)
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
	if left := quietStart - now.Sub(scheduled.LastTransitionTime.Time); left > 0 {
		return nil, min(left, quietStart) // a clock that is behind must not make it longer
	}
	return &condition.Cause{Reason: v1alpha1.ReasonPodStarting, Message: fmt.Sprintf(
		"kubelet has not started the container for more than %s (%s): kubectl describe pod -n %s %s",
		quietStart, state, pod.Namespace, pod.Name)}, 0
}

// startsLate reports whether kubelet has not started the container of the pod for quietStart, and its status does not say why.
func (s seen) startsLate(now time.Time) bool {
	if s.pod == nil || !recorded(s.vmi, s.pod.UID) {
		return false
	}
	why, _ := waiting(s.pod, now)
	return why != nil && why.Reason == v1alpha1.ReasonPodStarting
}

// containerOf returns the status of the only container of a pod, nil before kubelet has written it.
func containerOf(pod *corev1.Pod) *corev1.ContainerStatus {
	if len(pod.Status.ContainerStatuses) == 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[0]
}

// late is the time after the grace period of a pod's deletion after which its node is taken for one that does not answer.
const late = 30 * time.Second

// nodeLost returns why a pod whose node does not answer cannot be followed, nil if its node does as far as anybody knows. It also returns the time after
// which that may be otherwise.
func (s seen) nodeLost(now time.Time) (*condition.Cause, time.Duration) {
	if s.pod.Spec.NodeName == "" {
		return nil, 0
	}
	what := strings.TrimSpace(s.pod.Status.Message)
	if s.pod.Status.Reason != v1alpha1.ReasonNodeLost {
		if s.pod.DeletionTimestamp == nil {
			return nil, 0
		}
		if left := s.pod.DeletionTimestamp.Add(late).Sub(now); left > 0 { // deletionTimestamp is the end of the grace period
			return nil, left
		}
		what = fmt.Sprintf("node '%s' has not ended the pod within its grace period", s.pod.Spec.NodeName)
	}
	return &condition.Cause{Reason: v1alpha1.ReasonNodeLost, Message: what + ": the guest may run there still. When the machine is off for certain, " +
		"taint the node with " + corev1.TaintNodeOutOfService + ", and the VM starts elsewhere"}, 0
}
