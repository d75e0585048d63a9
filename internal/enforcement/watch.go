package enforcement

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// newNamespace returns an empty namespace without spec and status, as the caches of Kiln's processes have it.
func newNamespace() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// JudgesNamed reports whether Kiln judges the objects of the namespace of a name. It reads a namespace that the cache lacks from the API server. A namespace
// that does not exist is not judged.
func (n Namespaces) JudgesNamed(ctx context.Context, cached, live client.Reader, name string) (bool, error) {
	namespace := newNamespace()
	err := cached.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		err = live.Get(ctx, client.ObjectKey{Name: name}, namespace)
	}
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return n.Judges(namespace), nil
}

// Watch makes a controller reconcile the VMs of a namespace when Kiln begins or ceases to judge it.
func (n Namespaces) Watch(b *builder.Builder, cached client.Reader) {
	changed := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // its VMs are reconciled, too
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return n.Judges(e.ObjectOld) != n.Judges(e.ObjectNew) },
	}
	b.WatchesMetadata(newNamespace(), handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, namespace client.Object) (all []ctrl.Request) {
		var vms v1.VirtualMachineList
		if err := cached.List(ctx, &vms, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "listing the VMs of a namespace", "namespace", namespace.GetName())
			return nil
		}
		for i := range vms.Items {
			all = append(all, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&vms.Items[i])})
		}
		return all
	}), builder.WithPredicates(changed))
}
