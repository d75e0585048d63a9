package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// difference is a leaf that two objects do not share. Absent is nil.
type difference struct {
	path      string
	want, got any
}

// String returns path and both values for a developer.
func (d difference) String() string {
	return fmt.Sprintf("%s: want %s, got %s", d.path, shortJSON(d.want), shortJSON(d.got))
}

// shortJSON returns at most 100 characters of a value as JSON.
func shortJSON(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return "?"
	}
	return fmt.Sprintf("%.100s", raw)
}

// differencesBetween returns the leaves in which two objects differ, in path order. Empty objects count as absent where the other has
// none: they say nothing.
func differencesBetween(path string, want, got any) (list []difference) {
	a, isObject := want.(map[string]any)
	b, alsoObject := got.(map[string]any)
	if isObject && (alsoObject || got == nil) || alsoObject && want == nil {
		for _, key := range slices.Sorted(maps.Keys(unionOfKeys(a, b))) {
			list = append(list, differencesBetween(strings.TrimPrefix(path+"."+key, "."), a[key], b[key])...)
		}
		if isObject != alsoObject && len(a)+len(b) == 0 && path != "" && !neutral[path[strings.LastIndexByte(path, '.')+1:]] {
			list = append(list, difference{path, want, got})
		}
		return list
	}
	x, isList := want.([]any)
	y, alsoList := got.([]any)
	// Lists of different lengths are one difference: which element is missing cannot be told without a key.
	if isList && alsoList && len(x) == len(y) {
		for i := range x {
			list = append(list, differencesBetween(fmt.Sprintf("%s[%d]", path, i), x[i], y[i])...)
		}
		return list
	}
	if !sameValue(want, got) {
		list = append(list, difference{path, want, got})
	}
	return list
}

// neutral objects say nothing when they are empty; elsewhere an empty object is a choice, such as 'masquerade: {}'.
var neutral = map[string]bool{
	"resources": true, "requests": true, "limits": true, "cpu": true, "memory": true, "machine": true, "features": true, "acpi": true, "firmware": true,
	"bootloader": true, "clock": true, "timer": true, "ioThreads": true, "labels": true, "annotations": true, "hyperv": true, "nodeSelector": true,
}

// unionOfKeys returns the keys of both objects.
func unionOfKeys(a, b map[string]any) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}

// sameValue reports whether two untyped values are equal. Absent and empty count as equal, except for objects, which differencesBetween compares field by
// field.
func sameValue(a, b any) bool {
	if isEmptyValue(a) && isEmptyValue(b) {
		return true
	}
	return reflect.DeepEqual(a, b)
}

// isEmptyValue values are left out of JSON by one side and written by the other.
func isEmptyValue(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case []any:
		return len(value) == 0
	case string:
		return value == ""
	// A JSON number is float64 once it is decoded without a type.
	case float64:
		return value == 0
	}
	return false
}

// lookupPath returns the value at a path, or nil. A segment in brackets is an index of a list, or a key of an object.
func lookupPath(object map[string]any, path string) any {
	var at any = object
	for _, segment := range pathSegments(path) {
		next, found := stepInto(at, segment)
		if !found {
			return nil
		}
		at = next
	}
	return at
}

// explainDifferences agrees when there are none, and lists them when each is explained.
func explainDifferences(c record, list []difference) outcome {
	// Random values are no difference (see isRandomValue).
	list = slices.DeleteFunc(list, difference.isRandomValue)
	if len(list) == 0 {
		return outcome{agrees: true}
	}
	o := differingOutcome("differs at %s", list[0])
	for _, d := range list {
		i := slices.IndexFunc(objectDeviations, func(known objectDeviation) bool { return known.explains(c, d) })
		if i < 0 {
			// One difference without a deviation makes the case unexplained, however many others have one.
			return differingOutcome("differs at %s", d)
		}
		if o.listed == "" {
			o.listed = objectDeviations[i].name
		}
	}
	return o
}
