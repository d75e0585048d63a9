package crdschema

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/nearest"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file checks the types of values. kube-openapi's validator, which an API server uses, describes wrong types in terms of Go, some of them
// without a path, and in an order that changes. So the validator is used only for the rest.

// typeChecker collects the errors about wrong types of a value and the values in it.
type typeChecker struct{ errs field.ErrorList }

// judgeTypes returns an error for each value of another type than the schema's, in the order of the paths.
func judgeTypes(content map[string]any, by *structural.Structural) field.ErrorList {
	var t typeChecker
	t.judgeValue(content, by, nil)
	return t.errs
}

func (t *typeChecker) judgeValue(value any, by *structural.Structural, at *field.Path) {
	if value == nil {
		if !by.Nullable { // it is in a list: keys without a value have been dropped
			t.errs = append(t.errs, field.Invalid(at, "null", "has no value: give one, or remove the entry"))
		}
		return
	}
	if by.XIntOrString {
		if _, text := value.(string); !text && !isWhole(value) {
			t.reportType(at, value, "a whole number or text")
		}
		return
	}
	switch by.Type {
	case "object":
		fields, is := value.(map[string]any)
		if !is {
			t.reportType(at, value, "a map of fields")
			return
		}
		t.judgeFields(fields, by, at)
	case "array":
		list, is := value.([]any)
		if !is {
			t.reportType(at, value, "a list")
			return
		}
		for i := range list {
			if by.Items != nil {
				t.judgeValue(list[i], by.Items, at.Index(i))
			}
		}
	case "string":
		if _, is := value.(string); !is {
			t.reportType(at, value, "text: write it in quotes")
		}
	case "boolean":
		if _, is := value.(bool); !is {
			t.reportType(at, value, "true or false")
		}
	case "integer":
		if !isWhole(value) {
			t.reportType(at, value, "a whole number")
		} else if least, most := rangeOf(by); !isBetween(value, least, most) {
			t.reportType(at, value, fmt.Sprintf("from %d to %d", least, most))
		}
	case "number":
		switch value.(type) {
		case int64, float64:
		default:
			t.reportType(at, value, "a number")
		}
	}
}

// judgeFields judges the fields of an object that its schema has. Other fields are unknown, which is another error, or allowed.
func (t *typeChecker) judgeFields(fields map[string]any, by *structural.Structural, at *field.Path) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if of, known := by.Properties[name]; known {
			t.judgeValue(fields[name], &of, at.Child(name))
		} else if more := by.AdditionalProperties; more != nil && more.Structural != nil {
			t.judgeValue(fields[name], more.Structural, at.Key(name))
		}
	}
}

func (t *typeChecker) reportType(at *field.Path, value any, want string) {
	switch value.(type) {
	case map[string]any:
		value = "a map of fields"
	case []any:
		value = "a list"
	}
	t.errs = append(t.errs, field.TypeInvalid(at, value, "must be "+want))
}

// isWhole reports whether JSON would encode the value as an integer.
func isWhole(value any) bool {
	switch of := value.(type) {
	case int64:
		return true
	case float64:
		return of == math.Trunc(of) && math.Abs(of) < 1<<63
	}
	return false
}

// rangeOf returns the bounds of the format of an integer.
func rangeOf(by *structural.Structural) (least, most int64) {
	if by.ValueValidation != nil && by.ValueValidation.Format == "int32" {
		return math.MinInt32, math.MaxInt32
	}
	return math.MinInt64, math.MaxInt64
}

func isBetween(value any, least, most int64) bool {
	if of, is := value.(int64); is {
		return of >= least && of <= most
	}
	of, _ := value.(float64)
	return of >= float64(least) && of <= float64(most)
}

// placesWithMistakes has the paths of errors, with dots instead of brackets, because two errors about one value may differ in that.
type placesWithMistakes map[string]bool

var plainPath = strings.NewReplacer("[", ".", "]", "")

func (p placesWithMistakes) addErrors(errs ...*field.Error) {
	for _, err := range errs {
		p[plainPath.Replace(err.Field)] = true
	}
}

// coversMistake reports whether a mistake of the validator is about a value that already has an error, or has no path, as mistakes that follow from a wrong
// type do.
func (p placesWithMistakes) coversMistake(mistake *field.Error) bool {
	if len(p) == 0 {
		return false
	}
	return mistake.Field == "" || mistake.Field == "<nil>" || p[plainPath.Replace(mistake.Field)]
}

// emptyKeys returns the paths of keys without a value, which an API server drops on create.
func emptyKeys(value any, by *structural.Structural, at *field.Path) (paths []string) {
	fields, is := value.(map[string]any)
	if list, ofList := value.([]any); ofList && by.Items != nil {
		for i := range list {
			paths = append(paths, emptyKeys(list[i], by.Items, at.Index(i))...)
		}
	}
	if !is {
		return paths
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		of, path := by.AdditionalProperties, at.Child(name)
		var schema *structural.Structural
		if known, has := by.Properties[name]; has {
			schema = &known
		} else if of != nil && of.Structural != nil {
			schema, path = of.Structural, at.Key(name)
		}
		switch {
		case schema == nil:
		case fields[name] == nil && !schema.Nullable && schema.Default.Object == nil:
			paths = append(paths, path.String())
		default:
			paths = append(paths, emptyKeys(fields[name], schema, path)...)
		}
	}
	return paths
}

// likelyField returns the path of the field that was probably meant by an unknown field: a field of the same object with a similar name, or a field of this
// name elsewhere in the schema, if there is only one, or if it is one level above or below. It returns an empty path if there is no such field.
func likelyField(root *structural.Structural, path string) string {
	parent, name := "", path
	if at := strings.LastIndex(path, "."); at >= 0 {
		parent, name = path[:at], path[at+1:]
	}
	if of := schemaAt(root, parent); of != nil {
		if likely := nearest.Name(name, slices.Collect(maps.Keys(of.Properties))); likely != "" {
			return likely
		}
	}
	places := placesOf(root, name)
	if len(places) == 1 {
		return places[0]
	}
	// A level above the parent, or below it.
	plain := withoutIndices(parent)
	for _, place := range places {
		above, _, _ := cutLast(place)
		if upper, _, found := cutLast(plain); found && above == upper || strings.HasPrefix(above, plain+".") && !strings.Contains(above[len(plain)+1:], ".") {
			return place
		}
	}
	return ""
}

func cutLast(path string) (before, last string, found bool) {
	at := strings.LastIndex(path, ".")
	if at < 0 {
		return "", path, false
	}
	return path[:at], path[at+1:], true
}

// withoutIndices removes the indices from a path.
func withoutIndices(path string) string {
	var out strings.Builder
	depth := 0
	for _, r := range path {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case depth == 0:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// schemaAt returns the schema of the object at a path; nil if the schema does not have the path.
func schemaAt(root *structural.Structural, path string) *structural.Structural {
	at := root
	if path == "" {
		return at
	}
	for part := range strings.SplitSeq(withoutIndices(path), ".") {
		for at != nil && at.Type == "array" {
			at = at.Items
		}
		if at == nil {
			return nil
		}
		next, known := at.Properties[part]
		if !known {
			return nil
		}
		at = &next
	}
	for at.Type == "array" && at.Items != nil {
		at = at.Items
	}
	return at
}

// placesOf returns the paths, without indices, at which a schema has a field of a name.
func placesOf(root *structural.Structural, name string) (paths []string) {
	var walk func(of *structural.Structural, at string)
	walk = func(of *structural.Structural, at string) {
		if of.Items != nil {
			walk(of.Items, at)
		}
		for _, field := range slices.Sorted(maps.Keys(of.Properties)) {
			next, path := of.Properties[field], strings.TrimPrefix(at+"."+field, ".")
			if strings.EqualFold(field, name) && path != "status" && !strings.HasPrefix(path, "status.") {
				paths = append(paths, path)
			}
			walk(&next, path)
		}
	}
	walk(root, "")
	return paths
}
