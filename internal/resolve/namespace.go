package resolve

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newNamespace returns an empty namespace without spec and status, so that a cache keeps only the metadata of namespaces.
func newNamespace() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// Namespace returns the metadata of a namespace, from the cache or else from the API server. If the namespace does not exist, which is usual for manifests in
// files, it has only the label that the API server gives to every namespace.
func (r Resolver) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return r.reader().readNamespace(ctx, name)
}

func (r reader) readNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	object := newNamespace()
	err := r.getObject(ctx, client.ObjectKey{Name: name}, object)
	if apierrors.IsNotFound(err) {
		object.ObjectMeta, err = metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}, nil
	}
	return &corev1.Namespace{TypeMeta: object.TypeMeta, ObjectMeta: object.ObjectMeta}, err
}
