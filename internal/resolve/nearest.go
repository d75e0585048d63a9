package resolve

import (
	"context"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/nearest"
	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MayRead reports whether the author of a request may read or list a source. Nil means that the process reads with the author's rights.
type MayRead func(context.Context, Source) (bool, error)

// Suggester finds objects with a similar name if the object that a reference names does not exist.
type Suggester struct {
	reader
	// mayRead limits suggestions to objects that the author of the request may list.
	mayRead MayRead
}

// Suggester returns a Suggester for the author of one request.
func (r Resolver) Suggester(mayRead MayRead) Suggester { return Suggester{r.reader(), mayRead} }

// Suggest adds a hint to each warning or error about an instancetype or preference that does not exist, see Hint.
func (s Suggester) Suggest(ctx context.Context, resolution *Resolution) {
	for i := range resolution.Missing {
		missing := &resolution.Missing[i]
		at := slices.Index(resolution.Warnings, missing.Warning)
		if s.Hint(ctx, missing); at >= 0 {
			resolution.Warnings[at] = missing.Warning
		}
	}
}

// Hint adds a hint to the warning or error about an object that does not exist. If the cluster-wide or the namespaced kind beside it has an object of the same
// name, the hint names that kind; otherwise it names the nearest name. If the author of the request may not list such objects, Hint reads and adds nothing, so
// that the time of the answer reveals nothing about them. The hint comes last, because the API server may cut a warning after 256 characters: then only the
// hint is lost.
func (s Suggester) Hint(ctx context.Context, missing *Missing) {
	hint := s.hintFor(ctx, *missing)
	switch {
	case hint == "":
	case missing.refused != nil:
		missing.refused.Detail += "; " + hint
		if form := validation.IsDNS1123Subdomain(missing.Value); len(form) > 0 { // the form of names takes longer than the hint
			missing.refused.Detail = nearest.NoObject + "; " + hint + " " + upperFirst(form[0])
		}
	default:
		missing.Warning += "; " + hint
	}
}

func upperFirst(text string) string {
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}

// hintFor returns the hint for a missing object; empty if no object has a similar name.
func (s Suggester) hintFor(ctx context.Context, missing Missing) (hint string) {
	if missing.Kind == "" || len(missing.Value) > nearest.Longest {
		return ""
	}
	if s.mayList(ctx, missing) {
		names := slices.DeleteFunc(s.siblingNames(ctx, missing), func(name string) bool { return name == missing.self })
		if name := nearest.Name(missing.Value, names); name != "" {
			hint = "did you mean '" + name + "'?"
		}
	}
	other := Missing{Value: missing.Value, Kind: missing.otherKind, Namespace: missing.otherNamespace}
	if other.Kind == "" || !s.mayList(ctx, other) || !slices.Contains(s.siblingNames(ctx, other), missing.Value) {
		return hint
	}
	if missing.otherForbidden != "" {
		return other.Kind + " '" + other.Value + "' exists, but " + missing.otherForbidden
	}
	return "did you mean kind '" + other.Kind + "'?"
}

// mayList reports whether the author of the request may list the siblings of a missing object.
func (s Suggester) mayList(ctx context.Context, missing Missing) bool {
	if s.mayRead == nil {
		return true
	}
	allowed, err := s.mayRead(ctx, missing.allOfKind())
	return err == nil && allowed // a hint is not worth an error
}

// allOfKind returns the source that stands for all objects of the missing object's kind and namespace.
func (m Missing) allOfKind() Source {
	return Source{sourceKind{groupOf(m.Kind).WithKind(m.Kind), strings.ToLower(m.Kind) + "s"}, m.Namespace, anyName}
}

// groupOf returns the API group and version of a kind that users refer to by its name.
func groupOf(kind string) schema.GroupVersion {
	switch kind {
	case v1alpha1.KindGuestProfile, v1alpha1.KindClusterGuestProfile:
		return v1alpha1.GroupVersion
	case v1.VirtualMachineGroupVersionKind.Kind:
		return v1.GroupVersion
	case kindSnapshot:
		return api.SchemeGroupVersion
	}
	return v1beta1.SchemeGroupVersion
}

// siblingNames returns the names of the siblings; nil if they cannot be read. Instancetypes, preferences and profiles are read from the cache, untyped as
// everywhere, because a typed list would start a second informer.
func (s Suggester) siblingNames(ctx context.Context, m Missing) (names []string) {
	kind := m.allOfKind().GroupVersionKind
	if !isCached(kind) {
		return s.uncachedNames(ctx, kind, m.Namespace)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if s.cachedObjects.List(ctx, list, client.InNamespace(m.Namespace), client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}

// The metadata of an object may have more than a megabyte, and tenants write it. So a process reads one page at a time, and other requests get no hint
// meanwhile.
const namesOfPage = 25

var readingNames = semaphore.NewWeighted(1)

// uncachedNames returns names of VMs or snapshots of a namespace, which no cache has. It stops at as many as nearest.Name compares.
func (s Suggester) uncachedNames(ctx context.Context, kind schema.GroupVersionKind, namespace string) (names []string) {
	if s.liveObjects != nil {
		if !readingNames.TryAcquire(1) {
			return nil
		}
		defer readingNames.Release(1)
	}
	for next := ""; ; {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if s.liveReader().List(ctx, page, client.InNamespace(namespace), client.Limit(namesOfPage), client.Continue(next)) != nil {
			return nil
		}
		for i := range page.Items {
			names = append(names, page.Items[i].Name)
		}
		if next = page.Continue; next == "" || len(names) >= nearest.MostCompared {
			return names
		}
	}
}

// isCached reports whether admission has the objects of a kind in its cache.
func isCached(kind schema.GroupVersionKind) bool {
	return kind.Group == v1beta1.SchemeGroupVersion.Group || kind.Group == v1alpha1.GroupVersion.Group
}
