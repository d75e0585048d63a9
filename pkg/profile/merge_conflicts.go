package profile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/pkg/internal/selector"
	"k8s.io/apimachinery/pkg/labels"
)

// Conflict is another profile of the same priority that may select the same VMI, and the fields in which the two differ, at most conflictFields. A VMI that
// both select is refused.
type Conflict struct {
	With   *Profile
	Fields []string
}

const (
	// conflictNames bounds what is reported of one profile.
	conflictNames  = 10
	conflictFields = 3
	// conflictWork bounds the fields that are compared to half a second of work: users who may write profiles decide how many fields there are.
	conflictWork = 200_000
)

// Conflicts returns the conflicts of each profile: the first conflictNames of them, in the order of kind and name. It returns false if there are too many
// profiles to compare all; conflicts may then be missing. namespaces returns the labels of a namespace. A field is no conflict if a profile of a higher
// priority that selects all VMIs of all namespaces sets it.
func Conflicts(all []*Profile, namespaces func(string) map[string]string) (found map[*Profile][]Conflict, complete bool) {
	found = map[*Profile][]Conflict{}
	sorted, left := sortByPriority(all), conflictWork
	required := map[*Profile]selector.Requirements{}
	visible := map[string][]*Profile{} // by namespace: among which bases are looked up
	for _, p := range sorted {
		required[p] = selector.Of(p.Spec.Selector)
		visible[p.Namespace] = append(visible[p.Namespace], p)
	}
	for namespace, own := range visible {
		if namespace != "" {
			visible[namespace] = append(own, visible[""]...)
		}
	}
	for i, a := range sorted {
		above := slices.DeleteFunc(slices.Clone(sorted[:i]), func(p *Profile) bool { return p.Spec.Priority == a.Spec.Priority || !selectsAllVMIs(p) })
		for _, b := range sorted[i+1:] {
			if a.Spec.Priority != b.Spec.Priority {
				break
			}
			if a.Spec.Selector == nil || b.Spec.Selector == nil || !shareNamespace(a, b, namespaces) || !required[a].Compatible(required[b]) {
				continue
			}
			if left -= 1 + len(a.settings) + len(b.settings) + len(above); left < 0 {
				return found, false
			}
			if fields := differingFields(a, b, above, visible[cmp.Or(a.Namespace, b.Namespace)]); len(fields) > 0 {
				found[a] = addConflict(found[a], Conflict{b, fields})
				found[b] = addConflict(found[b], Conflict{a, fields})
			}
		}
	}
	return found, true
}

func addConflict(list []Conflict, c Conflict) []Conflict {
	if len(list) == conflictNames {
		return list
	}
	return append(list, c)
}

// selectsAllVMIs reports whether a profile selects each VMI of each namespace.
func selectsAllVMIs(p *Profile) bool {
	return p.Spec.Selector != nil && p.selector.Empty() && p.Namespace == "" && (p.NamespaceSelector == nil || p.namespaces.Empty()) && !p.Spec.AllowExclusion
}

// shareNamespace reports whether there may be a namespace that both profiles are for.
func shareNamespace(a, b *Profile, namespaces func(string) map[string]string) bool {
	switch {
	case a.Namespace != "" && b.Namespace != "":
		return a.Namespace == b.Namespace
	case a.Namespace != "":
		return b.InNamespace(labels.Set(namespaces(a.Namespace)))
	case b.Namespace != "":
		return a.InNamespace(labels.Set(namespaces(b.Namespace)))
	}
	return selector.Of(a.NamespaceSelector).Compatible(selector.Of(b.NamespaceSelector))
}

// differingFields returns the first conflictFields fields in which two profiles differ and which no profile above them sets. Bases are looked up in all.
func differingFields(a, b *Profile, above, all []*Profile) []string {
	fields := map[string]bool{}
	for _, d := range Disagreements(append(slices.Clone(above), a, b), all) {
		if d.First.Profile == a && d.Second.Profile == b || d.First.Profile == b && d.Second.Profile == a {
			fields[d.Field] = true
		}
	}
	names := slices.Sorted(maps.Keys(fields))
	return names[:min(conflictFields, len(names))]
}
