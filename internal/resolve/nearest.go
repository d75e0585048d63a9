package resolve

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/kilnvm/kiln/pkg/instancetype"
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

// Suggest adds what was probably meant to each warning or error of an instancetype or preference that does not exist: the other kind, if it has an object of
// that name, else the nearest name. It reads the cache alone. Names are those that whoever asks may list, by mayRead; nil means that the reader itself reads
// with their rights. Who may not list them gets no hint, and the cache is not read either, so that the time of an answer says nothing about it.
func (r Resolver) Suggest(ctx context.Context, resolution *Resolution, mayRead func(context.Context, Source) (bool, error)) {
	for i := range resolution.Missing {
		missing := &resolution.Missing[i]
		if missing.Kind == "" || len(missing.Value) > longestMeant {
			continue
		}
		permitted := func(m Missing) bool {
			if mayRead == nil {
				return true
			}
			allowed, err := mayRead(ctx, m.siblings())
			return err == nil && allowed // a hint is not worth an error
		}
		hint := ""
		if permitted(*missing) {
			if name := Nearest(missing.Value, r.names(ctx, *missing)); name != "" {
				hint = "'" + name + "'"
			}
		}
		if other := missing.other(); permitted(other) && slices.Contains(r.names(ctx, other), missing.Value) {
			hint = "kind '" + other.Kind + "'"
		}
		if hint != "" {
			resolution.hint(missing, hint)
		}
	}
}

// hint says what was probably meant. It stands first: API servers cut warnings after 120 characters, which a kind and a namespace may fill.
func (a *Resolution) hint(missing *Missing, meant string) {
	if missing.refused != nil {
		missing.refused.Detail = fmt.Sprintf("did you mean %s? %s", meant, missing.refused.Detail)
		return
	}
	if at := slices.Index(a.Warnings, missing.Warning); at >= 0 {
		missing.Warning = fmt.Sprintf("did you mean %s? %s", meant, missing.Warning)
		a.Warnings[at] = missing.Warning
	}
}

// other is the same name in the other kind: of the VM's namespace for a cluster-wide object, cluster-wide for one of a namespace.
func (m Missing) other() Missing {
	for _, kinds := range []instancetype.KindNames{instancetypes.KindNames, preferences.KindNames} {
		switch m.Kind {
		case kinds.Cluster:
			return Missing{Value: m.Value, Kind: kinds.Namespaced, Namespace: m.guests}
		case kinds.Namespaced:
			return Missing{Value: m.Value, Kind: kinds.Cluster}
		}
	}
	return Missing{}
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

// Nearest returns the name that was probably meant: the one that differs in upper and lower case alone, else that of the least distance without regard to
// case. Of several it is the one with the longest common beginning, since people know how a name begins; then the one of the same length; then the first by
// the alphabet. It is empty if less than two thirds of the name are right, or if the name is longer than names that people type.
func Nearest(meant string, names []string) string {
	best, least := "", (len(meant)+2)/3+1
	if len(meant) > longestMeant {
		return ""
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return len(name)-len(meant) >= least || len(meant)-len(name) >= least
	})
	slices.Sort(names)
	lower := strings.ToLower(meant)
	if i := slices.IndexFunc(names, func(name string) bool { return strings.ToLower(name) == lower }); i >= 0 {
		return names[i]
	}
	for _, name := range names[:min(len(names), mostCompared)] {
		distance := levenshtein.ComputeDistance(lower, strings.ToLower(name))
		if distance < least || distance == least && best != "" && likelier(lower, name, best) {
			best, least = name, distance
		}
	}
	return best
}

// likelier reports whether of two names at the same distance the first was rather meant than the second.
func likelier(meant, name, than string) bool {
	if a, b := commonBeginning(meant, name), commonBeginning(meant, than); a != b {
		return a > b
	}
	return len(name) == len(meant) && len(than) != len(meant)
}

// commonBeginning is the number of bytes with which both texts begin, without regard to case.
func commonBeginning(a, b string) (n int) {
	a, b = strings.ToLower(a), strings.ToLower(b)
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
