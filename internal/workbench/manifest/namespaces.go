package manifest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// AddNamespaceLabels sets the label kubernetes.io/metadata.name on each Namespace among the objects, as an API server does, because selectors may match it.
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
