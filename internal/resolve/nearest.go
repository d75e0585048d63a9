package resolve

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/nearest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Suggest adds what was probably meant to each warning or error of an instancetype or preference that does not exist: the other kind, if it has an object of
// that name, else the nearest name. It reads the cache alone. Names are those that whoever asks may list, by mayRead; nil means that the reader itself reads
// with their rights. Who may not list them gets no hint, and the cache is not read either, so that the time of an answer says nothing about it.
func (r Resolver) Suggest(ctx context.Context, resolution *Resolution, mayRead func(context.Context, Source) (bool, error)) {
	for i := range resolution.Missing {
		missing := &resolution.Missing[i]
		if missing.Kind == "" || len(missing.Value) > nearest.Longest {
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
			if name := nearest.Name(missing.Value, r.names(ctx, *missing)); name != "" {
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
