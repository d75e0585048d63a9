package manifest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OfTyped converts an object to a manifest: without its status, and without the meaningless empty objects that KubeVirt's Go types encode, such as
// resources.
func OfTyped(typed client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	dropMeaningless(content)
	return &unstructured.Unstructured{Object: content}, nil
}

// meaningless are the keys of objects that Go's encoder writes though they are empty. Other empty objects, such as emptyDisk, have a meaning.
var meaningless = []string{"metadata", "resources", "creationTimestamp"}

// dropMeaningless removes meaningless empty objects from a document, the innermost first, because then the object around them may be empty.
func dropMeaningless(node any) {
	switch node := node.(type) {
	case map[string]any:
		for _, child := range node {
			dropMeaningless(child)
		}
		for _, key := range meaningless {
			if child, found := node[key]; found && (child == nil || isEmpty(child)) {
				delete(node, key)
			}
		}
	case []any:
		for _, child := range node {
			dropMeaningless(child)
		}
	}
}

// isEmpty reports whether a node is an object without fields. It returns false for empty lists and strings.
func isEmpty(node any) bool {
	object, is := node.(map[string]any)
	return is && len(object) == 0
}
