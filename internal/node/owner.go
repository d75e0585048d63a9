package node

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/hypervisor"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// owner returns the owner of the VMI's domain.
func (n *Node) owner(vmi *v1.VirtualMachineInstance) hypervisor.Owner {
	return hypervisor.Owner{Cluster: n.Cluster, Namespace: vmi.Namespace, Name: vmi.Name, UID: vmi.UID, Node: n.Name}
}

// Identify sets Cluster to the UID of namespace kube-system.
func (n *Node) Identify(ctx context.Context) error {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := n.Live.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return fmt.Errorf("cannot read namespace '%s', whose UID identifies the cluster: %w; apply manifests/rbac", metav1.NamespaceSystem, err)
	}
	n.Cluster = namespace.UID
	return nil
}
