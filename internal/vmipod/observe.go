package vmipod

import (
	"context"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// seen is what the cache has of one VMI; nil where something does not exist.
type seen struct {
	key   types.NamespacedName
	vmi   *v1.VirtualMachineInstance
	pod   *corev1.Pod
	guest *v1alpha1.GuestPod
	// nodeOut reports that the node of the pod is out of service: its administrator says that it runs nothing, and it does not answer.
	nodeOut bool
	// mountFailure is the event that says why the pod has no container; empty for a pod that has one, or that kubelet may still start.
	mountFailure string
	// unbound says which claims of the pod are not bound, while the pod has no node for that.
	unbound string
}

func (c *Controller) observe(ctx context.Context, key types.NamespacedName) (s seen, err error) {
	s.key = key
	if s.vmi, err = get(ctx, c.Client, key, &v1.VirtualMachineInstance{}); err != nil {
		return s, err
	}
	if s.pod, err = get(ctx, c.Client, podOf(key), &corev1.Pod{}); err != nil {
		return s, err
	}
	if s.guest, err = get(ctx, c.Client, key, &v1alpha1.GuestPod{}); err != nil {
		return s, err
	}
	if s.pod == nil || s.pod.DeletionTimestamp == nil || s.pod.Spec.NodeName == "" {
		return s, nil // the node matters to a pod that is being deleted alone
	}
	node, err := get(ctx, c.Client, types.NamespacedName{Name: s.pod.Spec.NodeName}, &corev1.Node{})
	s.nodeOut = node != nil && outOfService(node)
	return s, err
}

// podOf returns the key of the pod of a VMI.
func podOf(vmi types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: vmi.Namespace, Name: pod.Name(vmi.Name)}
}

// get returns an object, nil if it does not exist.
func get[O interface {
	*E
	client.Object
}, E any](ctx context.Context, reader client.Reader, key types.NamespacedName, into O) (O, error) {
	if err := reader.Get(ctx, key, into); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return into, nil
}

// outOfService reports whether an administrator has tainted a node as one that is off (KEP-2268), and the node does not answer. Kubernetes releases pods by
// this rule, too: the taint on a node that is Ready is a mistake, and its guests run.
func outOfService(node *corev1.Node) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return !ready && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// ofName reports whether the controller of an object is a VMI of this name, of any UID.
func ofName(object metav1.Object, name string) bool {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != v1.VirtualMachineInstanceGroupVersionKind.Kind || owner.Name != name {
		return false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && group.Group == v1.GroupVersion.Group
}

// ofVMI reports whether a VMI is the controller of an object. metav1.IsControlledBy compares the UID alone: anybody may write it with another kind.
func ofVMI(object metav1.Object, vmi *v1.VirtualMachineInstance) bool {
	return ofName(object, vmi.Name) && metav1.GetControllerOf(object).UID == vmi.UID
}

// recorded reports whether a pod is the one of the VMI's status.
func recorded(vmi *v1.VirtualMachineInstance, uid types.UID) bool {
	_, found := vmi.Status.ActivePods[uid]
	return found
}

// placedByKiln reports whether a VMI is for this runtime: one that has a node and no pod was claimed by a launcher of that machine.
func placedByKiln(vmi *v1.VirtualMachineInstance) bool {
	return vmi.Status.NodeName == "" || len(vmi.Status.ActivePods) > 0
}
