package backend

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/internal/selector"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Conflict is another profile of the same priority that may select the same VMI on the same host, and the fields in which the two differ, at most
// conflictFields. A VMI that both select does not start.
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

// Conflicts returns the conflicts of each profile by its name: the first conflictNames of them, in the order of the names. It returns false if there are too
// many profiles to compare all pairs; conflicts may then be missing. Invalid profiles and fields, which Policy leaves out, are no conflicts, and neither is a
// field that a profile of a higher priority for all VMIs on all hosts sets.
func Conflicts(profiles []v1alpha1.HostProfile) (found map[string][]Conflict, all bool) {
	ranked := rankedProfiles(profiles)
	found = map[string][]Conflict{}
	left := conflictComparisons
	for i, a := range ranked {
		for _, b := range ranked[i+1:] {
			if b.priority != a.priority {
				break // sorted by priority
			}
			if left--; left < 0 {
				return found, false
			}
			if len(found[a.name]) == conflictNames && len(found[b.name]) == conflictNames {
				continue
			}
			if !a.canMeet(b) {
				continue
			}
			if fields := a.differingFields(b); len(fields) > 0 {
				found[a.name] = addConflict(found[a.name], Conflict{b.name, fields})
				found[b.name] = addConflict(found[b.name], Conflict{a.name, fields})
			}
		}
	}
	return found, true
}

// addConflict appends a conflict unless the list is full: the message of a HostProfile's condition is bounded.
func addConflict(list []Conflict, c Conflict) []Conflict {
	if len(list) == conflictNames {
		return list
	}
	return append(list, c)
}

// rankedProfile is the part of a profile that Conflicts compares.
type rankedProfile struct {
	name        string
	priority    int32
	vmis, hosts selector.Requirements
	values      map[string]any // by the field's path, such as cpu.shares
}

// rankedProfiles returns the profiles with valid selectors, by descending priority and by name, without the fields that a profile of a higher
// priority for all VMIs on all hosts sets.
func rankedProfiles(profiles []v1alpha1.HostProfile) (ranked []rankedProfile) {
	for i := range profiles {
		p := &profiles[i]
		if len(InvalidSelectors(&p.Spec, policyPath())) > 0 {
			continue
		}
		c := rankedProfile{p.Name, p.Spec.Priority, selector.Of(p.Spec.VMISelector), selector.Of(p.Spec.NodeSelector), map[string]any{}}
		visitFields(reflect.ValueOf(withoutInvalidFields(&p.Spec)).Elem(), "", func(name string, value reflect.Value) {
			c.values[name] = value.Interface()
		})
		ranked = append(ranked, c)
	}
	slices.SortFunc(ranked, func(a, b rankedProfile) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), strings.Compare(a.name, b.name))
	})
	decided := map[string]int32{} // by field: the highest priority of a profile for all
	for _, c := range ranked {
		for name := range c.values {
			if by, is := decided[name]; is && by > c.priority {
				delete(c.values, name)
			} else if len(c.vmis) == 0 && len(c.hosts) == 0 {
				decided[name] = c.priority
			}
		}
	}
	return ranked
}

// differingFields returns the first conflictFields fields that both set to different values, by name.
func (c rankedProfile) differingFields(other rankedProfile) (fields []string) {
	few, many := c.values, other.values
	if len(few) > len(many) {
		few, many = many, few
	}
	for name, value := range few {
		if other, set := many[name]; set && !equality.Semantic.DeepEqual(other, value) {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields[:min(conflictFields, len(fields))]
}

// canMeet reports whether a VMI and a host can exist that both profiles select.
func (c rankedProfile) canMeet(other rankedProfile) bool {
	return c.vmis.Compatible(other.vmis) && c.hosts.Compatible(other.hosts)
}
