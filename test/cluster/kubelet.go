package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// passing reports whether the next round may find it otherwise.
func passing(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// pod does the next step of a pod: it is bound, it runs, and after its deletion it ends. at has the nodes of other pods.
func (n *nodes) pod(ctx context.Context, pod *corev1.Pod, at map[types.UID]string, guests map[types.NamespacedName]*v1.VirtualMachineInstance) error {
	switch client := n.pods.CoreV1().Pods(pod.Namespace); {
	case !launcher(pod):
		return nil
	case pod.DeletionTimestamp != nil:
		now := int64(0)
		return client.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	case pod.Spec.NodeName == "":
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target: corev1.ObjectReference{Kind: "Node", Name: choose(pod, at, guests)}}
		return client.Bind(ctx, binding, metav1.CreateOptions{})
	case pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "":
		run(pod)
		_, err := client.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	case pod.Status.Phase == corev1.PodRunning && left(pod, guests):
		pod.Status.Phase = corev1.PodSucceeded
		_, err := client.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	default:
		return nil
	}
}

// left reports whether the guest of a virt-launcher has ended or migrated away, so that the pod ends.
func left(pod *corev1.Pod, guests map[types.NamespacedName]*v1.VirtualMachineInstance) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != v1.VirtualMachineInstanceGroupVersionKind.Kind {
		return false
	}
	vmi := guests[types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}]
	if vmi == nil || vmi.UID != owner.UID {
		return false
	}
	state := vmi.Status.MigrationState
	return vmi.IsFinal() || state != nil && state.Completed && !state.Failed && pod.Name == state.SourcePod
}

// choose returns the node of a pod. A pod with volumes goes to the node of its owner, the target of a migration to another node than the guest's.
func choose(pod *corev1.Pod, at map[types.UID]string, guests map[types.NamespacedName]*v1.VirtualMachineInstance) string {
	owner := metav1.GetControllerOf(pod)
	if owner != nil && at[owner.UID] != "" {
		return at[owner.UID]
	}
	if owner != nil && pod.Labels[v1.MigrationJobLabel] != "" {
		if vmi := guests[types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}]; vmi != nil && vmi.Status.NodeName == nodeNames[0] {
			return nodeNames[1]
		}
	}
	if host := pod.Spec.NodeSelector[corev1.LabelHostname]; host != "" {
		return host
	}
	return nodeNames[0]
}

// run is what kubelet writes when all containers are ready.
func run(pod *corev1.Pod) {
	now := metav1.Now()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	pod.Status.PodIP, pod.Status.PodIPs = "10.1.0.1", []corev1.PodIP{{IP: "10.1.0.1"}}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	started := true
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
}
