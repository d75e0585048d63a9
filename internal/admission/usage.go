package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// usage is the number of objects of a kind in a namespace, and their bytes of JSON without managed fields and status.
type usage struct{ objects, bytes int }

// cachedUsage returns the usage of a kind of instancetypes, preferences, presets, exceptions or profiles in a namespace, from the cache. It does not count
// the object of the given name.
func cachedUsage(ctx context.Context, resolver resolve.Resolver, kind, namespace, without string) (used usage, err error) {
	if kind == v1.VirtualMachineInstancePresetGroupVersionKind.Kind {
		all, err := resolver.Presets(ctx, namespace)
		if err != nil {
			return usage{}, err
		}
		for i := range all {
			if err := used.addTyped(&all[i], all[i].Spec, without); err != nil {
				return usage{}, err
			}
		}
		return used, nil
	}
	if kind == v1alpha1.KindGuestPolicyException {
		return exceptionUsage(ctx, resolver.Cached, namespace, without)
	}
	of := v1beta1.SchemeGroupVersion.String()
	if kind == v1alpha1.KindGuestProfile {
		of = v1alpha1.GroupVersion.String()
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": of, "kind": kind + "List"}}
	if err := resolver.Cached.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return usage{}, fmt.Errorf("listing the %ss of namespace '%s': %w", kind, namespace, err)
	}
	for i := range list.Items {
		if list.Items[i].GetName() != without {
			used.objects, used.bytes = used.objects+1, used.bytes+revision.CachedBytes(list.Items[i].Object)
		}
	}
	return used, nil
}

// countObjects returns how many objects of a kind a namespace has, as the API server counts them: the webhook does not cache the kind. It lists one object, and
// the list says how many more there are.
func countObjects(ctx context.Context, live client.Reader, kind schema.GroupVersionKind, namespace string) (int, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := live.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
		return 0, fmt.Errorf("counting the %ss of namespace '%s': %w", kind.Kind, namespace, err)
	}
	return len(list.Items) + int(ptr.Deref(list.RemainingItemCount, 0)), nil
}

// revisionUsage returns the usage of the revisions of a namespace with drafts of that namespace. A draft whose revision exists counts once. It returns the zero
// usage if every revision exists.
func revisionUsage(ctx context.Context, cached client.Reader, drafts []revision.Draft) (used usage, err error) {
	var list appsv1.ControllerRevisionList
	if err := cached.List(ctx, &list, client.InNamespace(drafts[0].Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return usage{}, fmt.Errorf("listing the revisions of namespace '%s': %w", drafts[0].Namespace, err)
	}
	added := 0
	for _, draft := range drafts {
		if !slices.ContainsFunc(list.Items, func(of appsv1.ControllerRevision) bool { return of.Name == draft.Name }) {
			added++
			used.bytes += len(draft.Data)
		}
	}
	if added == 0 {
		return usage{}, nil
	}
	for i := range list.Items {
		used.bytes += len(list.Items[i].Data.Raw)
	}
	used.objects = len(list.Items) + added
	return used, nil
}

// exceptionUsage is cachedUsage of GuestPolicyExceptions, of which the cache has typed objects.
func exceptionUsage(ctx context.Context, cached client.Reader, namespace, without string) (used usage, err error) {
	var all v1alpha1.GuestPolicyExceptionList
	if err := cached.List(ctx, &all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return usage{}, fmt.Errorf("listing the GuestPolicyExceptions of namespace '%s': %w", namespace, err)
	}
	for i := range all.Items {
		if err := used.addTyped(&all.Items[i], all.Items[i].Spec, without); err != nil {
			return usage{}, err
		}
	}
	return used, nil
}

// addTyped adds an object with its spec, unless it has the name.
func (u *usage) addTyped(of metav1.Object, spec any, without string) error {
	if of.GetName() == without {
		return nil
	}
	text, err := json.Marshal([]any{spec, of.GetLabels(), of.GetAnnotations()})
	u.objects, u.bytes = u.objects+1, u.bytes+len(text)
	return err
}
