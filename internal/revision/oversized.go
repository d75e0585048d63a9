package revision

import (
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Objects that are too large for a cache. Admission bounds instancetypes, preferences and profiles, but a cluster may have older ones, and others whose webhook
// was away. A cache keeps their names alone, and nobody takes what is left for the object.

// maxCachedBytes bounds what a cache keeps of one object, in bytes. The largest that admission allows has less.
const maxCachedBytes = 512 << 10

// oversizedAnnotation is an annotation that no API server stores: its name is no legal key.
const oversizedAnnotation = "kilnvm.io/oversized/bytes"

// ErrOversized is the error of an object of which a cache keeps its name alone.
var ErrOversized = errors.New("the object is too large")

// Bound takes the spec, labels and annotations out of an object that is too large for a cache, and marks it.
func Bound(object *unstructured.Unstructured) {
	size := CachedBytes(object.Object)
	if size <= maxCachedBytes {
		return
	}
	object.SetAnnotations(map[string]string{oversizedAnnotation: strconv.Itoa(size)})
	object.SetLabels(nil)
	delete(object.Object, "spec")
	delete(object.Object, "status")
}

// checkSize returns ErrOversized for an object that Bound has marked.
func checkSize(object *unstructured.Unstructured) error {
	if size, marked := object.GetAnnotations()[oversizedAnnotation]; marked {
		return fmt.Errorf("%w: it has %s bytes, at most %d are read; make it smaller, or delete it", ErrOversized, size, maxCachedBytes)
	}
	return nil
}

// CachedBytes is about the length of the JSON of an object's spec, labels and annotations.
func CachedBytes(object map[string]any) int {
	metadata, _ := object["metadata"].(map[string]any)
	return jsonSize(object["spec"]) + jsonSize(metadata["labels"]) + jsonSize(metadata["annotations"])
}

func jsonSize(value any) (size int) {
	switch of := value.(type) {
	case map[string]any:
		for key, value := range of {
			size += len(key) + 4 + jsonSize(value) // quotes, colon, comma
		}
		return size + 2
	case []any:
		for _, value := range of {
			size += 1 + jsonSize(value)
		}
		return size + 2
	case string:
		return len(of) + 2
	case nil:
		return 0
	}
	return 8 // numbers and booleans
}
