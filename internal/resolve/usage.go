package resolve

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Usage is how many objects of a kind a namespace has, and how many bytes of JSON these are without managed fields and status.
type Usage struct{ Objects, Bytes int }

// Usage returns what the cache has of a kind of instancetypes, preferences, presets or profiles in a namespace, without the object of a name.
func (r Resolver) Usage(ctx context.Context, kind, namespace, without string) (used Usage, err error) {
	if kind == v1.VirtualMachineInstancePresetGroupVersionKind.Kind {
		all, err := r.Presets(ctx, namespace)
		if err != nil {
			return Usage{}, err
		}
		for i := range all {
			if all[i].Name == without {
				continue
			}
			text, err := json.Marshal([]any{all[i].Spec, all[i].Labels, all[i].Annotations})
			if err != nil {
				return Usage{}, err
			}
			used.Objects, used.Bytes = used.Objects+1, used.Bytes+len(text)
		}
		return used, nil
	}
	of := catalogVersion
	if kind == v1alpha1.KindGuestProfile {
		of = profileVersion
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": of, "kind": kind + "List"}}
	if err := r.Cached.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return Usage{}, fmt.Errorf("listing the %ss of namespace '%s': %w", kind, namespace, err)
	}
	for i := range list.Items {
		if list.Items[i].GetName() != without {
			used.Objects, used.Bytes = used.Objects+1, used.Bytes+revision.CachedBytes(list.Items[i].Object)
		}
	}
	return used, nil
}

// Count returns how many objects of a kind a namespace has, as the API server counts them: the kind is in no cache of the webhook. It asks for one of them,
// whose list says how many more there are.
func (r Resolver) Count(ctx context.Context, kind schema.GroupVersionKind, namespace string) (int, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := r.Live.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
		return 0, fmt.Errorf("counting the %ss of namespace '%s': %w", kind.Kind, namespace, err)
	}
	return len(list.Items) + int(ptr.Deref(list.RemainingItemCount, 0)), nil
}

// RevisionUsage returns what the revisions of a namespace are with drafts of that namespace. A draft whose revision is there counts once.
func (r Resolver) RevisionUsage(ctx context.Context, drafts []revision.Draft) (used Usage, err error) {
	var list appsv1.ControllerRevisionList
	if err := r.Cached.List(ctx, &list, client.InNamespace(drafts[0].Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return Usage{}, fmt.Errorf("listing the revisions of namespace '%s': %w", drafts[0].Namespace, err)
	}
	added := 0
	for _, draft := range drafts {
		if !slices.ContainsFunc(list.Items, func(of appsv1.ControllerRevision) bool { return of.Name == draft.Name }) {
			added++
			used.Bytes += len(draft.Data)
		}
	}
	if added == 0 { // nothing becomes more
		return Usage{}, nil
	}
	for i := range list.Items {
		used.Bytes += len(list.Items[i].Data.Raw)
	}
	used.Objects = len(list.Items) + added
	return used, nil
}
