package resolve

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/pkg/instancetype"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CatalogObjects are the instancetype and the preference of a VM with their metadata, each nil if the VM does not have it. An object of a cluster-wide kind
// has the Go type of the namespaced kind, which has the same fields, and its own kind. The objects are shared, and must not be changed.
type CatalogObjects struct {
	Instancetype *v1beta1.VirtualMachineInstancetype
	Preference   *v1beta1.VirtualMachinePreference
}

// CatalogObjects returns the objects of a set with their metadata. A revision has no labels and no annotations: they come from the cached object if it has the
// content of the revision. Otherwise the metadata is only the name. CatalogObjects never calls the API server.
func (r Resolver) CatalogObjects(ctx context.Context, namespace string, set instancetype.Set) (whole CatalogObjects, err error) {
	if i := set.Instancetype; i != nil {
		whole.Instancetype, err = cachedCatalogObject[v1beta1.VirtualMachineInstancetype](ctx, r, catalogSource{instancetypes, namespace, i.Source})
		if whole.Instancetype == nil && err == nil {
			whole.Instancetype = &v1beta1.VirtualMachineInstancetype{TypeMeta: typeOf(i.Source), ObjectMeta: metav1.ObjectMeta{Name: i.Name}, Spec: i.Spec}
		}
	}
	if p := set.Preference; p != nil && err == nil {
		whole.Preference, err = cachedCatalogObject[v1beta1.VirtualMachinePreference](ctx, r, catalogSource{preferences, namespace, p.Source})
		if whole.Preference == nil && err == nil {
			whole.Preference = &v1beta1.VirtualMachinePreference{TypeMeta: typeOf(p.Source), ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: p.Spec}
		}
	}
	return whole, err
}

func typeOf(source instancetype.Source) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: source.Kind}
}

// catalogSource is the source of a spec, for a VM of a namespace.
type catalogSource struct {
	pinKind
	namespace string
	instancetype.Source
}

// cachedCatalogObject returns the cached object that has the content of a source's revision; nil if no cached object has it.
func cachedCatalogObject[T any](ctx context.Context, r Resolver, of catalogSource) (*T, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(of.Kind))
	key := client.ObjectKey{Name: of.Name}
	if of.Kind == of.Namespaced {
		key.Namespace = of.namespace
	}
	if err := r.Cached.Get(ctx, key, object); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s: %w", of.Source, err)
	}
	draft, err := r.reader().newDraft(of.namespace, object)
	if err != nil || of.Revision != "" && draft.Name != of.Revision {
		return nil, err
	}
	return memoizeVersion(r.Memo, object, "whole "+of.field, func() (*T, error) {
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
			return nil, fmt.Errorf("reading %s: %w", of.Source, err)
		}
		return typed, nil
	})
}
