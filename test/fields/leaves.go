// Package fields finds out, for every leaf of the VMI's API, what becomes of it: an element of the domain, the business of
// the pod, or a refusal. The evidence is the domain: a leaf counts as mapped only if the domain changes without it.
package fields

import (
	"reflect"
	"slices"
	"strings"
)

// whole are types that are one value to the user, whatever they consist of.
var whole = []string{
	"resource.Quantity", "intstr.IntOrString", "v1.Time", "v1.Duration", "v1.LabelSelector", "v1.Affinity", "v1.Probe", "v1.Toleration",
	"v1.TopologySpreadConstraint", "v1.PodDNSConfig", "v1.ResourceList", "v1.FieldsV1",
}

// leavesOfType lists the paths of the leaves of a type, with [] for elements of lists and {} for values of maps.
func leavesOfType(t reflect.Type) []string {
	var found []string
	walkType(t, "", &found)
	slices.Sort(found)
	return slices.Compact(found)
}

func walkType(t reflect.Type, path string, found *[]string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case slices.Contains(whole, t.String()):
		*found = append(*found, path)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		walkType(t.Elem(), path+"[]", found)
	case t.Kind() == reflect.Map:
		walkType(t.Elem(), path+"{}", found)
	case t.Kind() == reflect.Struct && fieldsOf(t) > 0:
		for i := range t.NumField() {
			field := t.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if strings.Contains(options, "inline") || name == "" && field.Anonymous {
				walkType(field.Type, path, found)
			} else if name != "" && name != "-" {
				walkType(field.Type, strings.TrimPrefix(path+"."+name, "."), found)
			}
		}
	default:
		*found = append(*found, path)
	}
}

// fieldsOf counts what a user can write. A struct without fields counts itself, as in 'masquerade: {}'.
func fieldsOf(t reflect.Type) int { return t.NumField() }
