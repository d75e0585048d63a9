package vmipod

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hostprofile"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// guestPodCreation creates the GuestPods of pods that have a node. The launcher of a pod reads there that the VMI's guest is to run in its pod.
type guestPodCreation struct{ *environment }

func (g guestPodCreation) createGuestPod(ctx context.Context, o observed.Objects) (*condition.Cause, error) {
	policy, cause, err := g.hostPolicy(ctx, o)
	if err != nil || cause != nil {
		return cause, err
	}
	cluster, err := objects.GetOrNil(ctx, g.Client, types.NamespacedName{Name: metav1.NamespaceSystem}, &corev1.Namespace{})
	if err != nil {
		return nil, err
	}
	if cluster == nil {
		return nil, fmt.Errorf("there is no namespace '%s', whose UID identifies the cluster", metav1.NamespaceSystem)
	}
	guest := &v1alpha1.GuestPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Key.Namespace, Name: o.Key.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.Pod, corev1.SchemeGroupVersion.WithKind("Pod"))}},
		Spec: v1alpha1.GuestPodSpec{VMIUID: o.VMI.UID, PodUID: o.Pod.UID, ClusterUID: cluster.UID, NodeName: o.Pod.Spec.NodeName, HostPolicy: policy,
			Clients: g.Clients.Now()},
	}
	guest.OwnerReferences[0].BlockOwnerDeletion = nil // only its own finalizer delays the pod
	if err := g.Live.Create(ctx, guest); err != nil {
		return nil, fmt.Errorf("creating GuestPod '%s': %w", guest.Name, err)
	}
	return nil, nil
}

// hostPolicy returns the merged HostProfiles that select the VMI and the node of the pod, nil for none. It returns a cause if they contradict each other.
func (g guestPodCreation) hostPolicy(ctx context.Context, o observed.Objects) (*v1alpha1.HostPolicy, *condition.Cause, error) {
	node, err := objects.GetOrNil(ctx, g.Client, types.NamespacedName{Name: o.Pod.Spec.NodeName}, &corev1.Node{})
	if err != nil {
		return nil, nil, err
	}
	if node == nil {
		return nil, &condition.Cause{Reason: v1alpha1.ReasonNodeLost, Message: fmt.Sprintf("there is no node '%s'", o.Pod.Spec.NodeName)}, nil
	}
	profiles, err := hostprofile.All(ctx, g.Client)
	if err != nil {
		return nil, nil, err
	}
	policy, errs := backend.Policy(profiles, o.VMI, backend.Capabilities{Labels: node.Labels})
	if len(errs) > 0 {
		return nil, &condition.Cause{Reason: v1alpha1.ReasonNotRenderable, Message: condition.Mistakes(errs)}, nil
	}
	if equality.Semantic.DeepEqual(policy, v1alpha1.HostPolicy{}) {
		return nil, nil, nil
	}
	return &policy, nil, nil
}
