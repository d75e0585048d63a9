package startcheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

const (
	reasonNodeNotReady     = "node-not-ready"
	reasonContainerEnded   = "container-ended"
	reasonContainersWait   = "containers-awaited"
	reasonContainersSilent = "containers-silent"
)

// eventsOfVolumes are reasons of events that say why a pod with a node has no containers. Kubelet writes them, and the controller that attaches volumes: the
// status of the pod does not have them.
var eventsOfVolumes = []string{"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "FailedPrepareDynamicResources",
	"NetworkNotReady"}

// waitingReasons are kubelet's words for a container that does not start without help.
var waitingReasons = []string{v1alpha1.ReasonErrImagePull, v1alpha1.ReasonImagePullBackOff, v1alpha1.ReasonInvalidImageName,
	v1alpha1.ReasonErrImageNeverPull, v1alpha1.ReasonCreateContainerConfigError, v1alpha1.ReasonCreateContainerError, "RunContainerError",
	"ErrImageInspect", "RegistryUnavailable", v1alpha1.ReasonCrashLoopBackOff}

// findContainers finds whether the containers of the pod were started.
func findContainers(o Objects) finding {
	pod := o.LauncherPod()
	switch {
	case o.bareMachine():
		return finding{state: Done, detail: "none: the guest is on a bare machine"}
	case pod != nil:
		return o.containersOf(pod)
	case o.launcherBegan():
		return finding{state: Done, detail: o.Pods.Denied}
	}
	f := finding{object: object{"VirtualMachineInstance", o.Name}}
	if refused, is := o.podRefusal(f); is {
		return refused
	}
	f.state, f.detail = Unknown, o.Pods.Denied
	return f
}

// containersOf finds which container of a pod has not started.
func (o Objects) containersOf(pod *corev1.Pod) finding {
	f := finding{state: Done, object: object{"Pod", pod.Name}}
	// The first container that waits is not always the one with a reason: those behind an init container only wait for it.
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, c := range all {
		if w := c.State.Waiting; w != nil && slices.Contains(waitingReasons, w.Reason) {
			text := fmt.Sprintf("container %s with image %s: %s", quoteName(c.Name), quoteName(c.Image), oneLine(w.Message))
			if end := c.LastTerminationState.Terminated; end != nil && w.Reason == v1alpha1.ReasonCrashLoopBackOff {
				text = exitOf(c.Name, end)
			}
			return f.withState(Failed, w.Reason, text)
		}
		if end := c.State.Terminated; end != nil && end.ExitCode != 0 {
			return f.withState(Failed, reasonContainerEnded, exitOf(c.Name, end))
		}
	}
	started := len(pod.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running == nil
	})
	if started {
		return f
	}
	if text := o.nodeFault(); text != "" {
		f.object = object{"Node", pod.Spec.NodeName}
		return f.withState(Failed, reasonNodeNotReady, text)
	}
	if event := o.newestEvent(pod, eventsOfVolumes...); event != nil {
		return f.withState(Failed, event.Reason, event.Message)
	}
	if c := podCondition(pod, corev1.PodScheduled); c != nil && o.olderThan(c.LastTransitionTime.Time, 5*patience) {
		return f.withState(Failed, reasonContainersSilent, "kubelet has not started the containers, and does not say why"+o.missingRightOfEvents())
	}
	return f.withState(Waiting, reasonContainersWait, "kubelet prepares its containers"+o.missingRightOfEvents())
}

// missingRightOfEvents returns the right that the caller lacks to read events, as the end of a sentence.
func (o Objects) missingRightOfEvents() string {
	if o.Events.Denied == "" {
		return ""
	}
	return "; " + o.Events.Denied
}

// nodeFault returns why the node of the pod is not ready; empty if it is, or the caller may not read it.
func (o Objects) nodeFault() string {
	if o.Node.Object == nil {
		return ""
	}
	for _, c := range o.Node.Object.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return strings.TrimSuffix("it is not ready: "+c.Message, ": ")
		}
	}
	return ""
}

// exitOf returns how a container ended.
func exitOf(name string, end *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("container %s ended with exit code %d", quoteName(name), end.ExitCode)
	for _, more := range []string{end.Reason, end.Message} {
		if more != "" {
			text += ": " + oneLine(more)
		}
	}
	return text
}
