package admit

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/fieldpath"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sortByField sorts errors by their fields, in the order of the API's types. Errors at one field stay in the order of their rules. of is the type of the
// object.
func sortByField(errs field.ErrorList, of reflect.Type) field.ErrorList {
	if len(errs) < 2 {
		return errs
	}
	keys := make(map[*field.Error]string, len(errs))
	for _, err := range errs {
		keys[err] = sortKey(of, err.Field)
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(keys[a], keys[b]) })
	return errs
}

// sortKey returns a text by which paths sort in the order of the fields of a type: a number for each step, and the key for an element of a map.
func sortKey(at reflect.Type, path string) string {
	var key strings.Builder
	for _, step := range fieldpath.Parse(path) {
		for at != nil && at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
		switch {
		case at != nil && at.Kind() == reflect.Struct:
			index, below := fieldOf(at, step.Text)
			fmt.Fprintf(&key, "%05d", index)
			at = below
		case at != nil && at.Kind() == reflect.Slice:
			index, _ := step.Index()
			fmt.Fprintf(&key, "%05d", index)
			at = at.Elem()
		default:
			key.WriteString(step.Text + "\x00")
			at = nil
		}
	}
	return key.String()
}

// fieldOf returns the position of a field among the fields of a struct, including the fields of inlined structs, and the type of the field.
func fieldOf(t reflect.Type, name string) (index int, of reflect.Type) {
	n := 0
	for _, f := range leaves.Fields(t) {
		below := t.Field(f.Index).Type
		if f.Name == name {
			return n, below
		}
		if n++; f.Name != "" {
			continue
		}
		if below.Kind() == reflect.Pointer {
			below = below.Elem()
		}
		if i, found := fieldOf(below, name); found != nil {
			return n + i, found
		}
		n += below.NumField()
	}
	return n, nil
}
