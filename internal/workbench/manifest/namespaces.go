package manifest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// WithNameLabels gives the namespaces among objects of files the label that an API server sets on each, their name: a selector may ask for it. A review gives
// one to namespaces that no file has.
func WithNameLabels(all []*unstructured.Unstructured) []*unstructured.Unstructured {
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
