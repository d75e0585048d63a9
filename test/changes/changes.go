// Package changes makes the neighbours of a manifest that differ from it in one leaf: removed, or with a value that few fields take.
package changes

import (
	_ "embed"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// OfPods is a VMI with the fields that become fields of its pod.
//
//go:embed pods.yaml
var OfPods []byte

// hostile are given to each leaf in turn. Few are legal of most leaves.
var hostile = []any{
	"", "a b", "A_b", "a.b", "-a", strings.Repeat("a", 64), "a/b", "../x", "1.5", "100m", "-1", "0",
	int64(-1), int64(0), int64(70000), int64(1 << 40), true,
}

// Single is an object with one leaf changed.
type Single struct {
	// What says which leaf was changed, and how.
	What   string
	Object map[string]any
}

// Each calls visit with each single change of the leaves below the field, in the order of their paths. more are tried beside the hostile values. A leaf that is
// removed from a list is null there.
func Each(object map[string]any, below string, more []any, visit func(Single)) {
	for _, at := range leafPaths(object[below], []any{below}) {
		for _, value := range slices.Concat([]any{nil}, hostile, more) {
			visit(change(object, at, value))
		}
	}
}

// One returns a single change that a random source chooses: of any leaf below the field, with any of the values.
func One(random *rand.Rand, object map[string]any, below string, more []any) Single {
	leaves := leafPaths(object[below], []any{below})
	at, values := leaves[random.IntN(len(leaves))], slices.Concat([]any{nil}, hostile, more)
	return change(object, at, values[random.IntN(len(values))])
}

// change returns the object with another value at a path.
func change(object map[string]any, at []any, value any) Single {
	changed := runtime.DeepCopyJSON(object)
	putValue(changed, at, value)
	what := fmt.Sprint(at) + " removed"
	if value != nil {
		what = fmt.Sprintf("%v is %q", at, fmt.Sprint(value))
	}
	return Single{What: what, Object: changed}
}

// leafPaths returns the paths of all values that are neither objects nor lists, and of empty objects and lists.
func leafPaths(value any, at []any) (found [][]any) {
	below := func(child, step any) {
		found = append(found, leafPaths(child, append(slices.Clone(at), step))...)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			below(value[key], key)
		}
	case []any:
		for i, child := range value {
			below(child, i)
		}
	}
	if found == nil {
		return [][]any{at}
	}
	return found
}

// putValue sets the value at a path, or removes it if it is nil. An element of a list is not removed, but null.
func putValue(object any, at []any, value any) {
	for _, step := range at[:len(at)-1] {
		if key, is := step.(string); is {
			object = object.(map[string]any)[key]
		} else {
			object = object.([]any)[step.(int)]
		}
	}
	switch last := at[len(at)-1].(type) {
	case string:
		if object := object.(map[string]any); value == nil {
			delete(object, last)
		} else {
			object[last] = value
		}
	case int:
		object.([]any)[last] = value
	}
}
