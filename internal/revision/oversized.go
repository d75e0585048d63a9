package revision

import (
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Objects that are too large for a cache. Admission bounds instancetypes, preferences and profiles, but a cluster may have older ones, and others whose webhook
// was away. A cache keeps their names alone, and nobody takes what is left for the object.

// mostCached bounds what a cache keeps of one object, in bytes. The largest that admission allows has less.
const mostCached = 512 << 10

// oversized is an annotation that no API server stores: its name is no legal key.
const oversized = "kilnvm.io/oversized/bytes"

// ErrOversized is the error of an object of which a cache keeps its name alone.
var ErrOversized = errors.New("the object is too large")

// Bound takes the spec, labels and annotations out of an object that is too large for a cache, and marks it.
func Bound(object *unstructured.Unstructured) {
	size := CachedBytes(object.Object)
	if size <= mostCached {
		return
	}
	object.SetAnnotations(map[string]string{oversized: strconv.Itoa(size)})
	object.SetLabels(nil)
	delete(object.Object, "spec")
	delete(object.Object, "status")
}

// refuseOversized returns ErrOversized for an object that Bound has marked.
func refuseOversized(object *unstructured.Unstructured) error {
	if size, marked := object.GetAnnotations()[oversized]; marked {
		return fmt.Errorf("%w: it has %s bytes, at most %d are read; make it smaller, or delete it", ErrOversized, size, mostCached)
	}
	return nil
}

// CachedBytes is about the length of the JSON of an object's spec, labels and annotations.
func CachedBytes(object map[string]any) int {
	metadata, _ := object["metadata"].(map[string]any)
	return bytesOf(object["spec"]) + bytesOf(metadata["labels"]) + bytesOf(metadata["annotations"])
}

func bytesOf(value any) (size int) {
	switch of := value.(type) {
	case map[string]any:
		for key, value := range of {
			size += len(key) + 4 + bytesOf(value) // quotes, colon, comma
		}
		return size + 2
	case []any:
		for _, value := range of {
			size += 1 + bytesOf(value)
		}
		return size + 2
	case string:
		return len(of) + 2
	case nil:
		return 0
	}
	return 8 // numbers and booleans
}
