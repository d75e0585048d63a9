package manifest

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PageSize is how many objects are read from a cluster, or decoded from a dump, at a time. 500 VMs have a few MiB.
const PageSize = 500

// EachPage reads the objects of a kind in a namespace, or in all namespaces if it is empty, and calls visit with each page of them.
func EachPage(ctx context.Context, cluster client.Reader, kind schema.GroupVersionKind, namespace string, visit func([]Object) error) error {
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	for next := ""; ; {
		if err := cluster.List(ctx, page, client.InNamespace(namespace), client.Limit(PageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("reading the kind %s: %w", kind.Kind, err)
		}
		found := make([]Object, len(page.Items))
		for i := range page.Items {
			found[i] = Stored(&page.Items[i])
		}
		if err := visit(found); err != nil {
			return err
		}
		if next = page.GetContinue(); next == "" {
			return ctx.Err()
		}
	}
}

// MadeByVM reports whether a VM created the object, which is a VMI.
func (o Object) MadeByVM() bool {
	by := metav1.GetControllerOf(o)
	return o.GetKind() == v1.VirtualMachineInstanceGroupVersionKind.Kind && by != nil && by.Kind == v1.VirtualMachineGroupVersionKind.Kind
}
