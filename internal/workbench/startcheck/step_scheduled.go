package startcheck

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

const (
	reasonSchedulerWaits  = "scheduler-awaited"
	reasonSchedulerSilent = "scheduler-silent"
)

// findSchedule finds whether the pod has a node. KubeVirt copies the condition of the pod to the VMI, and Kiln writes its message to condition Synchronized.
func findSchedule(o Objects) finding {
	vmi, pod := o.VMI.Object, o.LauncherPod()
	switch {
	case pod != nil && pod.Spec.NodeName != "":
		return finding{state: Done, object: object{"Node", pod.Spec.NodeName}}
	case vmi != nil && vmi.Status.NodeName != "" && pod == nil:
		return finding{state: Done, object: object{"Node", vmi.Status.NodeName}}
	case pod != nil:
		return o.findUnscheduled(pod)
	case vmi == nil:
		return finding{state: Unknown, detail: o.VMI.Denied}
	}
	f := finding{object: object{"VirtualMachineInstance", o.Name}}
	if c := o.falseCondition(v1.VirtualMachineInstanceConditionType(corev1.PodScheduled)); c != nil {
		return f.withState(Failed, o.reasonUnscheduled(c.Reason), o.messageUnscheduled(c.Message))
	}
	if refused, is := o.podRefusal(f); is && slices.Contains(reasonsBeforeNode, refused.reason) {
		return refused
	}
	f.state, f.detail = Unknown, o.Pods.Denied
	return f
}

// reasonsBeforeNode are reasons of condition Synchronized of VMIs whose pods have no node.
var reasonsBeforeNode = []string{corev1.PodReasonUnschedulable, corev1.PodReasonSchedulingGated, "WaitingForVolumeBinding"}

// reasonsOfEmptyNodes are reasons of condition Placeable: the pod does not fit a node without other pods either, so no stopped VM makes room for it.
var reasonsOfEmptyNodes = []string{v1alpha1.ReasonNoNodeLargeEnough, v1alpha1.ReasonNoNodeHasHugePages, v1alpha1.ReasonNoNodeHasDevice,
	v1alpha1.ReasonNoNodeHasCPU}

// reasonUnscheduled returns the reason for which a pod has no node. The scheduler says 'Insufficient memory' both of nodes that are full and of nodes that are
// too small. Condition Placeable, which only Kiln's controller writes, knows which of the two it is.
func (o Objects) reasonUnscheduled(reason string) string {
	if c := o.emptyNodes(); c != nil {
		return c.Reason
	}
	return reason
}

// messageUnscheduled returns the scheduler's message about a pod without a node. Of a CPU that no node has, the scheduler says only that labels do not match.
func (o Objects) messageUnscheduled(message string) string {
	if c := o.emptyNodes(); c != nil && c.Reason == v1alpha1.ReasonNoNodeHasCPU {
		return c.Message
	}
	return message
}

// emptyNodes returns condition Placeable if it has one of reasonsOfEmptyNodes. It is about the next start: while an edit waits for a restart, it says nothing
// about this pod.
func (o Objects) emptyNodes() *v1.VirtualMachineCondition {
	if c := o.notPlaceable(); c != nil && slices.Contains(reasonsOfEmptyNodes, c.Reason) && len(o.pendingEdits()) == 0 {
		return c
	}
	return nil
}

// findUnscheduled finds why a pod has no node.
func (o Objects) findUnscheduled(pod *corev1.Pod) finding {
	f := finding{object: object{"Pod", pod.Name}}
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return f.withState(Failed, o.reasonUnscheduled(c.Reason), o.messageUnscheduled(c.Message))
	}
	if refused, is := o.podRefusal(f); is && slices.Contains(reasonsBeforeNode, refused.reason) {
		return refused
	}
	if o.olderThan(pod.CreationTimestamp.Time, patience) {
		return f.withState(Failed, reasonSchedulerSilent, "the scheduler "+quoteName(pod.Spec.SchedulerName)+" has not chosen a node, and does not say why")
	}
	return f.withState(Waiting, reasonSchedulerWaits, "the scheduler has not chosen a node yet")
}

func podCondition(pod *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == of {
			return c
		}
	}
	return nil
}
