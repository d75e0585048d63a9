package revision

import (
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Admission bounds the size of instancetypes, preferences and profiles, but a cluster may contain objects that are older than the webhook, or that were written
// while it was not reachable. A cache keeps only the names of such objects, and marks them, so that nobody uses the rest as the object.

// maxCachedBytes bounds what a cache keeps of one object. The largest object that admission allows is smaller.
const maxCachedBytes = 512 << 10

// oversizedAnnotation marks an object that Bound has reduced. An API server does not store it, because its name is not a legal key.
const oversizedAnnotation = "kilnvm.io/oversized/bytes"

// ErrOversized is the error of an object of which a cache keeps only the name.
var ErrOversized = errors.New("the object is too large")

// Bound removes spec, status, labels and annotations from an object that is too large for a cache, and marks it.
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

// checkSize returns ErrOversized for an object that Bound has reduced.
func checkSize(object *unstructured.Unstructured) error {
	if size, marked := object.GetAnnotations()[oversizedAnnotation]; marked {
		return fmt.Errorf("%w: it has %s bytes, at most %d are read; make it smaller, or delete it", ErrOversized, size, maxCachedBytes)
	}
	return nil
}

// CachedBytes returns about the length in bytes of the JSON of spec, labels and annotations of an object.
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
