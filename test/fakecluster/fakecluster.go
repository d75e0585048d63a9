// Package fakecluster gives tests of controllers a cluster in memory.
package fakecluster

import (
	"errors"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// NetworkKind is the kind of networks of Multus.
var NetworkKind = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// VolumeSnapshotKinds are the kinds of the CSI snapshotter, which not every cluster serves.
var VolumeSnapshotKinds = []schema.GroupVersionKind{
	{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}, {Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotClass"},
}

// untypedKinds are the kinds that controllers read untyped or by their metadata.
var untypedKinds = []schema.GroupVersionKind{
	NetworkKind,
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaimTemplate"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass"},
}

// NewClient returns a client of a cluster that contains objects, and that serves more kinds untyped.
func NewClient(t *testing.T, served []schema.GroupVersionKind, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), storagev1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme),
		v1.AddToScheme(scheme), api.AddToScheme(scheme), clone.AddToScheme(scheme), v1alpha1.AddToScheme(scheme),
		openreports.Install(scheme)); err != nil {
		t.Fatal(err)
	}
	for _, kinds := range [][]schema.GroupVersionKind{untypedKinds, served} {
		for _, kind := range kinds {
			scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
			scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
		}
	}
	// The default tracker keeps managed fields, whose library does not know the uint64 of some fields of a guest.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(objects...).
		WithStatusSubresource(&v1.VirtualMachine{}, &v1.VirtualMachineInstance{}, &v1alpha1.GuestHardware{}, &api.VirtualMachineSnapshot{},
			&api.VirtualMachineSnapshotContent{}, &api.VirtualMachineRestore{}, &clone.VirtualMachineClone{}).Build()
}

// Start is the time at which the clock of a cluster stands.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// New returns a cluster that contains objects and serves VolumeSnapshots. Its clock stands at Start, and its recorder holds ten events.
func New(t *testing.T, objects ...client.Object) (*operation.Cluster, *events.FakeRecorder) {
	t.Helper()
	recorder := events.NewFakeRecorder(10)
	now := func() time.Time { return Start }
	return &operation.Cluster{Live: NewClient(t, VolumeSnapshotKinds, objects...), Events: recorder, Now: now}, recorder
}
