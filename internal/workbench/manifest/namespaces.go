package manifest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// AddNamespaceLabels sets the label with its name on each Namespace among objects of files, as an API server does: a selector may ask for it. A review adds the
// namespaces that no file has.
func AddNamespaceLabels(all []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, object := range all {
		if object.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Namespace") {
			continue
		}
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[corev1.LabelMetadataName] = object.GetName()
		object.SetLabels(labels)
	}
	return all
}
