// Package volumesnapshot creates and reads VolumeSnapshots, the snapshots of claims.
//
// They are read and written untyped, because few of their fields are needed, and their types are in another module. A cluster need not serve them.
package volumesnapshot

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/internal/objects"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GroupVersion is the version of the kinds VolumeSnapshot and VolumeSnapshotClass.
var GroupVersion = schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}

// The kinds of GroupVersion.
const (
	Kind      = "VolumeSnapshot"
	ClassKind = "VolumeSnapshotClass"
)

var resources = GroupVersion.WithResource("volumesnapshots").GroupResource()

// defaultClassAnnotation marks the class to use if a driver has several.
const defaultClassAnnotation = "snapshot.storage.kubernetes.io/is-default-class"

// NewObject returns an empty object of a kind of GroupVersion.
func NewObject(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(GroupVersion.WithKind(kind))
	return object
}

// Classes are the VolumeSnapshotClasses of a cluster by driver.
type Classes map[string][]unstructured.Unstructured

// ListClasses returns the VolumeSnapshotClasses of the cluster, and nil if the cluster does not serve the kind.
func ListClasses(ctx context.Context, reader client.Reader) (Classes, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(GroupVersion.WithKind(ClassKind + "List"))
	if err := reader.List(ctx, list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("listing VolumeSnapshotClasses: %w", err)
	}
	classes := Classes{}
	for _, class := range list.Items {
		driver, _, _ := unstructured.NestedString(class.Object, "driver")
		classes[driver] = append(classes[driver], class)
	}
	return classes, nil
}

// NameFor returns the name of the VolumeSnapshotClass for claims of a StorageClass: the only class of its driver, or the default class. It is empty if the
// driver has neither.
func (c Classes) NameFor(ctx context.Context, reader client.Reader, storageClass string) (string, error) {
	found, err := objects.GetOrNil(ctx, reader, types.NamespacedName{Name: storageClass}, &storagev1.StorageClass{})
	if err != nil || found == nil {
		return "", err
	}
	classes := c[found.Provisioner]
	if len(classes) == 1 {
		return classes[0].GetName(), nil
	}
	for _, class := range classes {
		if class.GetAnnotations()[defaultClassAnnotation] == "true" {
			return class.GetName(), nil
		}
	}
	return "", nil
}

// statusOf reads the status of a VolumeSnapshot.
func statusOf(found *unstructured.Unstructured) api.VolumeSnapshotStatus {
	status := api.VolumeSnapshotStatus{VolumeSnapshotName: found.GetName()}
	if ready, has, _ := unstructured.NestedBool(found.Object, "status", "readyToUse"); has {
		status.ReadyToUse = &ready
	}
	text, _, _ := unstructured.NestedString(found.Object, "status", "creationTime")
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		status.CreationTime = &metav1.Time{Time: at}
	}
	if text, has, _ := unstructured.NestedString(found.Object, "status", "error", "message"); has {
		status.Error = &api.Error{Message: &text}
	}
	return status
}

// RestoreSize returns the minimum size of a claim that is made from a VolumeSnapshot, and nil if the size is not known. If the VolumeSnapshot does not
// exist, the error is NotFound.
func RestoreSize(ctx context.Context, reader client.Reader, key types.NamespacedName) (*resource.Quantity, error) {
	found, err := objects.GetOrNil(ctx, reader, key, NewObject(Kind))
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, apierrors.NewNotFound(resources, key.Name)
	}
	text, has, _ := unstructured.NestedString(found.Object, "status", "restoreSize")
	size, err := resource.ParseQuantity(text)
	if !has || err != nil {
		return nil, nil
	}
	return &size, nil
}
