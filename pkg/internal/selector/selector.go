// Package selector compares label selectors: it finds whether any object can match two of them.
package selector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Requirements are the requirements of a label selector, by the label's key. The comparison is exact, because Kubernetes' four operators on one key restrict
// only its value or its presence.
type Requirements map[string]requirement

// requirement is what a selector requires of one label.
type requirement struct {
	exists, absent bool
	in             []string // nil: any value
	notIn          []string
}

// Of returns the requirements of a selector. Nil has no requirements: it selects everything.
func Of(given *metav1.LabelSelector) Requirements {
	out := Requirements{}
	if given == nil {
		return out
	}
	for key, value := range given.MatchLabels {
		out[key] = out[key].combine(requirement{exists: true, in: []string{value}})
	}
	for _, e := range given.MatchExpressions {
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			out[e.Key] = out[e.Key].combine(requirement{exists: true, in: e.Values})
		case metav1.LabelSelectorOpNotIn: // an absent label satisfies NotIn
			out[e.Key] = out[e.Key].combine(requirement{notIn: e.Values})
		case metav1.LabelSelectorOpExists:
			out[e.Key] = out[e.Key].combine(requirement{exists: true})
		case metav1.LabelSelectorOpDoesNotExist:
			out[e.Key] = out[e.Key].combine(requirement{absent: true})
		}
	}
	return out
}

// combine combines two requirements of one label.
func (d requirement) combine(other requirement) requirement {
	out := requirement{exists: d.exists || other.exists, absent: d.absent || other.absent, in: d.in, notIn: slices.Concat(d.notIn, other.notIn)}
	switch {
	case out.in == nil:
		out.in = other.in
	case other.in != nil:
		out.in = slices.DeleteFunc(slices.Clone(d.in), func(value string) bool { return !slices.Contains(other.in, value) })
	}
	return out
}

// isSatisfiable reports whether any value of the label, or its absence, satisfies the requirement.
func (d requirement) isSatisfiable() bool {
	if d.absent {
		return !d.exists
	}
	return d.in == nil || slices.ContainsFunc(d.in, func(value string) bool { return !slices.Contains(d.notIn, value) })
}

// Compatible reports whether any set of labels satisfies both. Each key is judged by itself.
func (d Requirements) Compatible(other Requirements) bool {
	for key, own := range d {
		if !own.combine(other[key]).isSatisfiable() {
			return false
		}
	}
	for _, theirs := range other {
		if !theirs.isSatisfiable() {
			return false
		}
	}
	return true
}
