package resolve

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Bounds of the search for a name, which a tenant starts with any name, among objects that a tenant may have made. The distance of two names takes
// time by the product of their lengths.
const (
	longestMeant = 63
	mostCompared = 1000
)

// Suggest adds the nearest name to each warning of an instancetype or preference that does not exist. It reads the cache alone. Names are those that
// whoever asks may list, by mayRead; nil means that the reader itself reads with their rights. Who may not list them gets no hint, and the cache is
// not read either, so that the time of an answer says nothing about it.
func (r Resolver) Suggest(ctx context.Context, resolution *Resolution, mayRead func(context.Context, Source) (bool, error)) {
	for i := range resolution.Missing {
		missing := &resolution.Missing[i]
		if missing.Kind == "" || len(missing.Value) > longestMeant {
			continue
		}
		if mayRead != nil {
			if allowed, err := mayRead(ctx, missing.siblings()); err != nil || !allowed {
				continue // a hint is not worth an error
			}
		}
		name := Nearest(missing.Value, r.names(ctx, *missing))
		at := slices.Index(resolution.Warnings, missing.Warning)
		if name == "" || at < 0 {
			continue
		}
		// The hint stands first: API servers cut warnings after 120 characters, which a kind and a namespace may fill.
		missing.Warning = fmt.Sprintf("did you mean '%s'? %s", name, missing.Warning)
		resolution.Warnings[at] = missing.Warning
	}
}

// siblings are the objects of the kind that is missing, where it was looked for.
func (m Missing) siblings() Source {
	kind := sourceKind{v1beta1.SchemeGroupVersion.WithKind(m.Kind), strings.ToLower(m.Kind) + "s"}
	return Source{kind, m.Namespace, anyName}
}

// names returns the names of the siblings; none if they cannot be read. They are read untyped, as everything of the catalog: a typed list would start
// a second informer.
func (r Resolver) names(ctx context.Context, m Missing) (names []string) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: v1beta1.SchemeGroupVersion.Group, Version: v1beta1.SchemeGroupVersion.Version, Kind: m.Kind + "List"})
	if r.Cached.List(ctx, list, client.InNamespace(m.Namespace), client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}

// Nearest returns the name that was probably meant: that of the least distance, the first by the alphabet of several. It is empty if less than two
// thirds of the name are right, or if the name is longer than names that people type.
func Nearest(meant string, names []string) string {
	best, least := "", (len(meant)+2)/3+1
	if len(meant) > longestMeant {
		return ""
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return len(name)-len(meant) >= least || len(meant)-len(name) >= least
	})
	slices.Sort(names)
	for _, name := range names[:min(len(names), mostCompared)] {
		if distance := levenshtein.ComputeDistance(meant, name); distance < least {
			best, least = name, distance
		}
	}
	return best
}
