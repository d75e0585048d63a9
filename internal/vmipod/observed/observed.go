// Package observed reads the objects of one VMI whose guest runs in a pod, and says how they belong together.
package observed

import (
	"context"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Objects are the objects of the name of one VMI, as the cache has them. An object that does not exist is nil.
type Objects struct {
	Key types.NamespacedName
	VMI *v1.VirtualMachineInstance
	// Pod has the name of the VMI's pod. Somebody else may have created it.
	Pod *corev1.Pod
	// GuestPod has the name of the VMI. It may name another pod.
	GuestPod *v1alpha1.GuestPod
	// NodeOutOfService is set only if the pod is being deleted.
	NodeOutOfService bool
}

// Read reads the objects of a VMI.
func Read(ctx context.Context, cache client.Reader, key types.NamespacedName) (o Objects, err error) {
	o.Key = key
	if o.VMI, err = objects.GetOrNil(ctx, cache, key, &v1.VirtualMachineInstance{}); err != nil {
		return o, err
	}
	if o.Pod, err = objects.GetOrNil(ctx, cache, PodKey(key), &corev1.Pod{}); err != nil {
		return o, err
	}
	if o.GuestPod, err = objects.GetOrNil(ctx, cache, key, &v1alpha1.GuestPod{}); err != nil {
		return o, err
	}
	if o.Pod == nil || o.Pod.DeletionTimestamp == nil || o.Pod.Spec.NodeName == "" {
		return o, nil
	}
	node, err := objects.GetOrNil(ctx, cache, types.NamespacedName{Name: o.Pod.Spec.NodeName}, &corev1.Node{})
	o.NodeOutOfService = node != nil && OutOfService(node)
	return o, err
}

// PodKey returns the key of the pod of a VMI.
func PodKey(vmi types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: vmi.Namespace, Name: pod.Name(vmi.Name)}
}

// RecordedPod returns the pod if status.activePods of the VMI has it, else nil.
func (o Objects) RecordedPod() *corev1.Pod {
	if o.VMI == nil || o.Pod == nil || !IsRecorded(o.VMI, o.Pod.UID) {
		return nil
	}
	return o.Pod
}

// GuestPodOfPod returns the GuestPod if it names the pod, else nil.
func (o Objects) GuestPodOfPod() *v1alpha1.GuestPod {
	if o.GuestPod == nil || o.Pod == nil || o.GuestPod.Spec.PodUID != o.Pod.UID {
		return nil
	}
	return o.GuestPod
}

// HardwareRecorded reports whether the GuestPod of the pod has the hardware.
func (o Objects) HardwareRecorded() bool {
	guest := o.GuestPodOfPod()
	return guest != nil && guest.Spec.Hardware != nil
}

// Domain returns what the launcher reports of the domain, nil before the first start. A report before the hardware is recorded is ignored, because no domain
// starts before.
func (o Objects) Domain() *v1alpha1.GuestDomain {
	if !o.HardwareRecorded() {
		return nil
	}
	return o.GuestPod.Status.Domain
}

// RunningDomain returns the domain if it has started and not ended, else nil.
func (o Objects) RunningDomain() *v1alpha1.GuestDomain {
	if domain := o.Domain(); domain != nil && !HasEnded(domain.State) {
		return domain
	}
	return nil
}

// RunningHardware returns the hardware that libvirt runs, as the launcher reports it: nil before the guest runs and after its end.
func (o Objects) RunningHardware() *v1alpha1.ReportedHardware {
	if o.RunningDomain() == nil {
		return nil
	}
	return o.GuestPod.Status.Running
}

// HasEnded reports whether a state is one of a domain that has ended.
func HasEnded(state v1alpha1.GuestDomainState) bool {
	return state == v1alpha1.GuestPoweredOff || state == v1alpha1.GuestDestroyed || state == v1alpha1.GuestFailed
}

// PodEnded reports whether all containers of a pod have ended.
func PodEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// PodCondition returns a condition of a pod, nil if the pod has none of this type.
func PodCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Container returns the status of the only container of a pod, nil before kubelet has written it.
func Container(pod *corev1.Pod) *corev1.ContainerStatus {
	if len(pod.Status.ContainerStatuses) == 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[0]
}

// OutOfService reports whether an administrator has tainted a node as one that is off (KEP-2268) and the node does not answer. Kubernetes releases pods by the
// same rule: the taint on a node that is Ready is a mistake, and its guests run.
func OutOfService(node *corev1.Node) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return !ready && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// IsOwnedByName reports whether the controller of an object is a VMI of this name, with any UID.
func IsOwnedByName(object metav1.Object, name string) bool {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != v1.VirtualMachineInstanceGroupVersionKind.Kind || owner.Name != name {
		return false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && group.Group == v1.GroupVersion.Group
}

// IsOwnedBy reports whether a VMI is the controller of an object. metav1.IsControlledBy compares only the UID, which anybody may write with another kind.
func IsOwnedBy(object metav1.Object, vmi *v1.VirtualMachineInstance) bool {
	return IsOwnedByName(object, vmi.Name) && metav1.GetControllerOf(object).UID == vmi.UID
}

// IsRecorded reports whether status.activePods of a VMI has a pod.
func IsRecorded(vmi *v1.VirtualMachineInstance, pod types.UID) bool {
	_, found := vmi.Status.ActivePods[pod]
	return found
}

// RunsInPod reports whether the guest of a VMI is to run in a pod. A VMI with a node and without a pod was claimed by the launcher of a bare machine.
func RunsInPod(vmi *v1.VirtualMachineInstance) bool {
	return vmi.Status.NodeName == "" || len(vmi.Status.ActivePods) > 0
}
