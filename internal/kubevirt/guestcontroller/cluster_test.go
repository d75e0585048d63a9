package guestcontroller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/test/slimmed"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var key = types.NamespacedName{Namespace: "team", Name: "a"}

// testCluster is the controllers over client-go's in-memory tracker.
type testCluster struct {
	*testing.T
	client.Client
	vms      *lifecycle.Controller
	hardware *hardwareReconciler
	created  int
}

func newCluster(t *testing.T, objects ...client.Object) *testCluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), corev1.AddToScheme(scheme), v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := &testCluster{T: t}
	// The default tracker keeps managed fields, whose library does not support the uint64 of some fields of a VMI.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	stored := fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(objects...).
		WithStatusSubresource(&v1.VirtualMachine{}, &v1.VirtualMachineInstance{}, &v1alpha1.GuestHardware{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: c.createWithUID}).Build()
	c.Client = stored
	kubevirt := &Controller{Client: slimmed.Client(stored), Live: stored, Events: events.NewFakeRecorder(100)}
	c.hardware = c.newHardwareReconciler()
	c.vms = &lifecycle.Controller{Client: kubevirt.Client, Live: stored, Resolver: resolve.Resolver{Cached: stored}, Events: kubevirt.Events, Now: time.Now,
		KubeVirt: kubevirt}
	return c
}

// newHardwareReconciler returns the reconciler of a process that has just started.
func (c *testCluster) newHardwareReconciler() *hardwareReconciler {
	stored, _ := c.Client.(client.WithWatch)
	return &hardwareReconciler{client: slimmed.Client(stored), live: stored, events: events.NewFakeRecorder(100)}
}

// createWithUID sets the UID, as the API server does.
func (c *testCluster) createWithUID(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
	c.created++
	object.SetUID(types.UID(fmt.Sprintf("%08d-bbbb", c.created)))
	return to.Create(ctx, object, options...)
}

// reconcileVM reconciles the VM as often as the controller would without waiting.
func (c *testCluster) reconcileVM() (result ctrl.Result) {
	c.Helper()
	for range 3 {
		var err error
		if result, err = c.vms.Reconcile(c.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			c.Fatal(err)
		}
	}
	return result
}

func (c *testCluster) vm() *v1.VirtualMachine {
	c.Helper()
	vm := &v1.VirtualMachine{}
	if err := c.Get(c.Context(), key, vm); err != nil {
		c.Fatal(err)
	}
	return vm
}

// vmi returns the VMI, nil if it does not exist.
func (c *testCluster) vmi() *v1.VirtualMachineInstance {
	c.Helper()
	vmi, err := objects.GetOrNil(c.Context(), c.Client, key, &v1.VirtualMachineInstance{})
	if err != nil {
		c.Fatal(err)
	}
	return vmi
}

func newVM(s v1.VirtualMachineRunStrategy) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace, UID: "11111111-aaaa", Generation: 1}}
	vm.Spec.RunStrategy = &s
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	vm.Spec.Template.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default"}}
	return vm
}

func smallInstancetype() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterInstancetype", "metadata": map[string]any{"name": "small"},
		"spec": map[string]any{"cpu": map[string]any{"guest": int64(1)}, "memory": map[string]any{"guest": "1Gi"}},
	}}
}
