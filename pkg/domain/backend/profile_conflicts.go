package backend

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conflict is another profile of the same priority that may select the same VMI on the same host, and the fields in which the two differ, at
// most conflictFields. Such a VMI does not start.
type Conflict struct {
	Profile string
	Fields  []string
}

const (
	// conflictNames bounds what is reported of one profile.
	conflictNames  = 10
	conflictFields = 3
	// conflictComparisons bounds the work: all pairs of 500 profiles of one priority are 124750.
	conflictComparisons = 250_000
)

// Conflicts returns for each profile in conflict, by its name, the first conflictNames of those with which it disagrees, in the order of their names. It
// reports false where there are so many profiles that not all could be compared; then some conflicts may be missing. What Policy leaves out disagrees
// with nothing, and neither does a field that a profile for all VMIs on all hosts decides with a higher priority.
func Conflicts(profiles []v1alpha1.HostProfile) (found map[string][]Conflict, all bool) {
	claims := claimsOf(profiles)
	found = map[string][]Conflict{}
	left := conflictComparisons
	for i, a := range claims {
		for _, b := range claims[i+1:] {
			if b.priority != a.priority {
				break // the claims are sorted
			}
			if left--; left < 0 {
				return found, false
			}
			if len(found[a.name]) == conflictNames && len(found[b.name]) == conflictNames {
				continue
			}
			if !a.meets(b) {
				continue
			}
			if fields := a.differs(b); len(fields) > 0 {
				found[a.name] = report(found[a.name], Conflict{b.name, fields})
				found[b.name] = report(found[b.name], Conflict{a.name, fields})
			}
		}
	}
	return found, true
}

func report(list []Conflict, c Conflict) []Conflict {
	if len(list) == conflictNames {
		return list
	}
	return append(list, c)
}

// claim is a profile as conflicts see it.
type claim struct {
	name        string
	priority    int32
	vmis, hosts demands
	values      map[string]any // by field
}

// claimsOf are the profiles that count, by priority, the highest first, and name.
func claimsOf(profiles []v1alpha1.HostProfile) (claims []claim) {
	for i := range profiles {
		p := &profiles[i]
		if len(Unreadable(&p.Spec, policyPath())) > 0 {
			continue
		}
		c := claim{p.Name, p.Spec.Priority, demandsOf(p.Spec.VMISelector), demandsOf(p.Spec.NodeSelector), map[string]any{}}
		walk(reflect.ValueOf(legible(&p.Spec)).Elem(), "", func(name string, value reflect.Value) {
			c.values[name] = value.Interface()
		})
		claims = append(claims, c)
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), strings.Compare(a.name, b.name))
	})
	decided := map[string]int32{} // by field: the highest priority of a profile for all
	for _, c := range claims {
		for name := range c.values {
			if by, is := decided[name]; is && by > c.priority {
				delete(c.values, name)
			} else if len(c.vmis) == 0 && len(c.hosts) == 0 {
				decided[name] = c.priority
			}
		}
	}
	return claims
}

// differs returns the first fields that both set, and set differently, by name.
func (c claim) differs(other claim) (fields []string) {
	few, many := c.values, other.values
	if len(few) > len(many) {
		few, many = many, few
	}
	for name, value := range few {
		if its, sets := many[name]; sets && !equality.Semantic.DeepEqual(its, value) {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields[:min(conflictFields, len(fields))]
}

// meets reports whether there can be a VMI and a host that both select.
func (c claim) meets(other claim) bool { return c.vmis.meet(other.vmis) && c.hosts.meet(other.hosts) }

// demands are what a selector asks of each label, by its key.
type demands map[string]ofLabel

// ofLabel is what a selector asks of one label.
type ofLabel struct {
	there, absent bool
	among         []string // nil: any value
	not           []string
}

func demandsOf(selector *metav1.LabelSelector) demands {
	out := demands{}
	if selector == nil {
		return out
	}
	for key, value := range selector.MatchLabels {
		out[key] = out[key].and(ofLabel{there: true, among: []string{value}})
	}
	for _, e := range selector.MatchExpressions {
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			out[e.Key] = out[e.Key].and(ofLabel{there: true, among: e.Values})
		case metav1.LabelSelectorOpNotIn: // a label that is absent is not in
			out[e.Key] = out[e.Key].and(ofLabel{not: e.Values})
		case metav1.LabelSelectorOpExists:
			out[e.Key] = out[e.Key].and(ofLabel{there: true})
		case metav1.LabelSelectorOpDoesNotExist:
			out[e.Key] = out[e.Key].and(ofLabel{absent: true})
		}
	}
	return out
}

func (d ofLabel) and(other ofLabel) ofLabel {
	out := ofLabel{there: d.there || other.there, absent: d.absent || other.absent, among: d.among, not: slices.Concat(d.not, other.not)}
	switch {
	case out.among == nil:
		out.among = other.among
	case other.among != nil:
		out.among = slices.DeleteFunc(slices.Clone(d.among), func(value string) bool { return !slices.Contains(other.among, value) })
	}
	return out
}

// possible reports whether some label, or its absence, is what is asked.
func (d ofLabel) possible() bool {
	if d.absent {
		return !d.there
	}
	return d.among == nil || slices.ContainsFunc(d.among, func(value string) bool { return !slices.Contains(d.not, value) })
}

// meet reports whether some set of labels is what both ask. Keys do not depend on each other.
func (d demands) meet(other demands) bool {
	for key, mine := range d {
		if !mine.and(other[key]).possible() {
			return false
		}
	}
	for _, its := range other {
		if !its.possible() {
			return false
		}
	}
	return true
}
