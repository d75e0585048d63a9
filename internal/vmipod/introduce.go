package vmipod

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hostprofile"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// introduce makes the GuestPod of a bound pod. From then on its launcher knows that it is the one.
func (c *Controller) introduce(ctx context.Context, s seen) (*condition.Cause, error) {
	policy, why, err := c.policy(ctx, s)
	if err != nil || why != nil {
		return why, err
	}
	cluster, err := get(ctx, c.Client, types.NamespacedName{Name: metav1.NamespaceSystem}, &corev1.Namespace{})
	if err != nil {
		return nil, err
	}
	if cluster == nil {
		return nil, fmt.Errorf("there is no namespace '%s', whose UID identifies the cluster", metav1.NamespaceSystem)
	}
	guest := &v1alpha1.GuestPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.pod, corev1.SchemeGroupVersion.WithKind("Pod"))}},
		Spec: v1alpha1.GuestPodSpec{VMIUID: s.vmi.UID, PodUID: s.pod.UID, ClusterUID: cluster.UID, NodeName: s.pod.Spec.NodeName, HostPolicy: policy,
			Clients: c.Clients.Now()},
	}
	// Nothing waits for the pod to go but its own finalizer.
	guest.OwnerReferences[0].BlockOwnerDeletion = nil
	if err := c.Live.Create(ctx, guest); err != nil {
		return nil, fmt.Errorf("creating GuestPod '%s': %w", guest.Name, err)
	}
	return nil, nil
}

// policy returns what the HostProfiles that select the VMI and the pod's node are merged into, nil for none. It is a refusal if they contradict each other.
func (c *Controller) policy(ctx context.Context, s seen) (*v1alpha1.HostPolicy, *condition.Cause, error) {
	node, err := get(ctx, c.Client, types.NamespacedName{Name: s.pod.Spec.NodeName}, &corev1.Node{})
	if err != nil {
		return nil, nil, err
	}
	if node == nil {
		return nil, &condition.Cause{Reason: v1alpha1.ReasonNodeLost, Message: fmt.Sprintf("there is no node '%s'", s.pod.Spec.NodeName)}, nil
	}
	profiles, err := hostprofile.All(ctx, c.Client)
	if err != nil {
		return nil, nil, err
	}
	policy, errs := backend.Policy(profiles, s.vmi, backend.Capabilities{Labels: node.Labels})
	if len(errs) > 0 {
		return nil, &condition.Cause{Reason: v1alpha1.ReasonNotRenderable, Message: condition.Mistakes(errs)}, nil
	}
	if equality.Semantic.DeepEqual(policy, v1alpha1.HostPolicy{}) {
		return nil, nil, nil
	}
	return &policy, nil, nil
}
