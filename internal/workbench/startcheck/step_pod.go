package startcheck

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

const (
	reasonPodGone   = "pod-gone"
	reasonPodEnded  = "pod-ended"
	reasonPodStops  = "pod-stops"
	reasonPodWaits  = "pod-awaited"
	reasonPodSilent = "pod-silent"
)

// ownedBy returns a function that reports whether an owner reference has a UID.
func ownedBy(uid types.UID) func(metav1.OwnerReference) bool {
	return func(r metav1.OwnerReference) bool { return uid != "" && r.UID == uid }
}

// LauncherPod returns the pod that starts or runs the guest; nil if it does not exist or the caller may not read pods. KubeVirt's pods with volumes that are
// plugged, targets of migrations, and pods that only bind claims are others. Of several the newest that has not ended is returned.
func (o Objects) LauncherPod() *corev1.Pod {
	if o.Pods.Object == nil || o.VMI.Object == nil {
		return nil
	}
	var best *corev1.Pod
	for i := range o.Pods.Object.Items {
		p := &o.Pods.Object.Items[i]
		_, binds := p.Annotations[v1.EphemeralProvisioningObject]
		_, target := p.Labels[v1.MigrationJobLabel]
		_, active := o.VMI.Object.Status.ActivePods[p.UID]
		launcher := p.Labels[v1.AppLabel] == "virt-launcher" && p.Labels[v1.CreatedByLabel] == string(o.VMI.Object.UID)
		if !launcher || binds || target && !active {
			continue
		}
		if best == nil || podEnded(best) && !podEnded(p) || podEnded(best) == podEnded(p) && best.CreationTimestamp.Before(&p.CreationTimestamp) {
			best = p
		}
	}
	return best
}

// podEnded reports whether no container of a pod runs any more.
func podEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// bareMachine reports whether a launcher of a bare machine has claimed the VMI: it has a node and never had a pod.
func (o Objects) bareMachine() bool {
	vmi := o.VMI.Object
	return vmi != nil && vmi.Status.NodeName != "" && len(vmi.Status.ActivePods) == 0 && o.LauncherPod() == nil && o.Runtime != RuntimeKubeVirt &&
		!slices.Contains([]v1.VirtualMachineInstancePhase{v1.VmPhaseUnset, v1.Pending, v1.Scheduling}, vmi.Status.Phase)
}

// launcherBegan reports whether the phase of the VMI says that its pod has a node and was handed over: KubeVirt's virt-handler or Kiln's controller goes on.
func (o Objects) launcherBegan() bool {
	return o.VMI.Object != nil && slices.Contains([]v1.VirtualMachineInstancePhase{v1.Scheduled, v1.Running, v1.Unknown}, o.VMI.Object.Status.Phase)
}

// podRefusal finds what condition Synchronized of the VMI says while it is False. KubeVirt and Kiln write there why they cannot go on.
func (o Objects) podRefusal(f finding) (finding, bool) {
	c := o.falseCondition(v1.VirtualMachineInstanceSynchronized)
	if c == nil {
		return f, false
	}
	f.object = object{"VirtualMachineInstance", o.Name}
	return f.withState(Failed, c.Reason, c.Message), true
}

// launcherPod finds whether the pod of the VMI exists.
func launcherPod(o Objects) finding {
	f := finding{state: Done}
	vmi, pod := o.VMI.Object, o.LauncherPod()
	switch {
	case vmi == nil:
		f.state, f.detail = Unknown, o.VMI.Denied
		return f
	case o.bareMachine():
		f.detail = "none: the guest is on a bare machine"
		return f
	case pod != nil:
		return o.existingPod(pod)
	case o.Pods.Denied != "" && (o.launcherBegan() || vmi.Status.Phase == v1.Scheduling):
		f.detail = o.Pods.Denied
		return f
	}
	if refused, is := o.podRefusal(f); is {
		return refused
	}
	f.object = object{"VirtualMachineInstance", o.Name}
	if event := o.newestEvent(vmi, "FailedCreate", "FailedPvcNotFound",
		v1.ContainerPathVolumesDisabledReason); event != nil && event.Type == corev1.EventTypeWarning {
		return f.withState(Failed, event.Reason, event.Message)
	}
	switch {
	case o.Pods.Denied != "":
		f.state, f.detail = Unknown, o.Pods.Denied
	case o.launcherBegan() || vmi.Status.Phase == v1.Scheduling && len(vmi.Status.ActivePods) > 0:
		return f.withState(Failed, reasonPodGone, "its pod does not exist any more")
	case o.olderThan(vmi.CreationTimestamp.Time, patience):
		return f.withState(Failed, reasonPodSilent, o.controllerName()+" has not made its pod, and does not say why")
	default:
		return f.withState(Waiting, reasonPodWaits, o.controllerName()+" has not made its pod yet")
	}
	return f
}

// existingPod finds whether a pod has ended or is being deleted.
func (o Objects) existingPod(pod *corev1.Pod) finding {
	f := finding{state: Done, object: object{"Pod", pod.Name}}
	switch {
	case podEnded(pod):
		return f.withState(Failed, cmp.Or(pod.Status.Reason, reasonPodEnded), endOfPod(pod))
	case pod.DeletionTimestamp != nil && o.olderThan(pod.DeletionTimestamp.Time, patience): // deletionTimestamp of a pod is the end of its grace period
		return f.withState(Failed, reasonDeletionHang, finalizersOf(pod.Finalizers))
	case pod.DeletionTimestamp != nil:
		return f.withState(Waiting, reasonPodStops, "it is being deleted")
	}
	return f
}

// endOfPod returns how a pod ended: the words of kubelet, and of the first container that failed.
func endOfPod(pod *corev1.Pod) string {
	texts := []string{"it ended"}
	if text := strings.TrimSuffix(strings.TrimPrefix(pod.Status.Reason+": "+pod.Status.Message, ": "), ": "); text != "" {
		texts = append(texts, text)
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if end := c.State.Terminated; end != nil && end.ExitCode != 0 {
			texts = append(texts, exitOf(c.Name, end))
			break
		}
	}
	return strings.Join(texts, "; ")
}
