package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/lifecycle/guesthardware"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/test/slimmed"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var key = types.NamespacedName{Namespace: "team", Name: "a"}

// testCluster is a controller over client-go's in-memory tracker, with its own clock.
type testCluster struct {
	*testing.T
	client.Client
	controller *Controller
	records    *guesthardware.Reconciler
	now        time.Time
	// skew is how far the launcher's clock is ahead.
	skew    time.Duration
	created int
	// admit is what webhooks do to a VMI that is created; nil for nothing.
	admit func(*v1.VirtualMachineInstance) error
	// authorize answers SubjectAccessReviews; nil denies them.
	authorize func(authorizationv1.SubjectAccessReviewSpec) bool
}

func newCluster(t *testing.T, objects ...client.Object) *testCluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), cdi.AddToScheme(scheme), corev1.AddToScheme(scheme),
		storagev1.AddToScheme(scheme), v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := &testCluster{T: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	// The default tracker keeps managed fields, whose library does not support the uint64 of some fields of a VMI.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	stored := fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(objects...).
		WithStatusSubresource(&v1.VirtualMachine{}, &v1.VirtualMachineInstance{}, &v1alpha1.GuestHardware{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: c.createWithUID}).Build()
	c.Client = stored
	c.controller = &Controller{
		Client: slimmed.Client(stored), Live: c.Client, Resolver: resolve.Resolver{Cached: c.Client},
		Events: events.NewFakeRecorder(100), Now: func() time.Time { return c.now },
	}
	c.restartRecords()
	return c
}

// restartRecords replaces the process that assigns hardware. Its memories are shortcuts.
func (c *testCluster) restartRecords() {
	c.records = &guesthardware.Reconciler{Client: c.controller.Client, Live: c.Client, Events: c.controller.Events, Now: c.controller.Now,
		Frontend: c.controller.pinnedFrontend}
}

// createWithUID answers reviews, calls admit, and sets UID and creation time, as the API server does.
func (c *testCluster) createWithUID(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
	if review, is := object.(*authorizationv1.SubjectAccessReview); is {
		review.Status.Allowed = c.authorize != nil && c.authorize(review.Spec)
		return nil
	}
	if vmi, is := object.(*v1.VirtualMachineInstance); is && c.admit != nil {
		if err := c.admit(vmi); err != nil {
			return err
		}
	}
	c.created++
	object.SetUID(types.UID(fmt.Sprintf("%08d-bbbb", c.created)))
	object.SetCreationTimestamp(metav1.NewTime(c.now))
	return to.Create(ctx, object, options...)
}

// reconcileRepeatedly reconciles VM and record as often as the controllers would without waiting.
func (c *testCluster) reconcileRepeatedly() ctrl.Result {
	c.Helper()
	var result ctrl.Result
	for range 4 { // the end is counted, the VMI is deleted, another VMI is created
		result = c.reconcileOnce()
	}
	return result
}

// reconcileOnce reconciles VM and record once.
func (c *testCluster) reconcileOnce() ctrl.Result {
	c.Helper()
	result, err := c.controller.Reconcile(c.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		c.Fatal(err)
	}
	if _, err := c.records.Reconcile(c.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		c.Fatal(err)
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
	vmi := &v1.VirtualMachineInstance{}
	if err := c.Get(c.Context(), key, vmi); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		c.Fatal(err)
	}
	return vmi
}

// setPhase reports a phase, as a launcher does.
func (c *testCluster) setPhase(phase v1.VirtualMachineInstancePhase) {
	c.Helper()
	vmi := c.vmi()
	vmi.Status.Phase, vmi.Status.NodeName = phase, "node"
	vmi.Status.PhaseTransitionTimestamps = append(vmi.Status.PhaseTransitionTimestamps,
		v1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: phase, PhaseTransitionTimestamp: metav1.NewTime(c.now.Add(c.skew))})
	if err := c.Status().Update(c.Context(), vmi); err != nil {
		c.Fatal(err)
	}
}

// shutDownGuest ends a guest after a run of stableRun.
func (c *testCluster) shutDownGuest() {
	c.Helper()
	c.setPhase(v1.Running)
	c.now = c.now.Add(stableRun)
	c.setPhase(v1.Succeeded)
}

func (c *testCluster) setRunStrategy(s v1.VirtualMachineRunStrategy) {
	c.Helper()
	vm := c.vm()
	vm.Spec.RunStrategy = &s
	if err := c.Update(c.Context(), vm); err != nil {
		c.Fatal(err)
	}
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

func TestGuestOfAVM(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	vm, vmi := c.vm(), c.vmi()
	if vmi == nil {
		t.Fatal("no guest of a VM that is always to run")
	}
	if vm.Annotations[v1alpha1.AnnotationIdentity] != string(vm.UID) || vmi.Annotations[v1alpha1.AnnotationIdentity] != string(vm.UID) {
		t.Errorf("identity of the VM '%s', of the guest '%s'", vm.Annotations[v1alpha1.AnnotationIdentity], vmi.Annotations[v1alpha1.AnnotationIdentity])
	}
	if vmi.Spec.Domain.Firmware == nil || vmi.Spec.Domain.Firmware.UUID == "" || vmi.Spec.Domain.Devices.Interfaces[0].MacAddress == "" {
		t.Error("the guest has no UUID or MAC of its own")
	}
	if !metav1.IsControlledBy(vmi, vm) || len(vmi.Finalizers) > 0 {
		t.Errorf("owners %v, finalizers %v", vmi.OwnerReferences, vmi.Finalizers)
	}
	if vm.Status.PrintableStatus != v1.VirtualMachineStatusStarting || !vm.Status.Created || vm.Status.Ready {
		t.Errorf("status %+v", vm.Status)
	}
	identity := vmi.Spec.Domain.Firmware.UUID
	c.shutDownGuest()
	c.reconcileRepeatedly()
	if again := c.vmi(); again == nil || again.UID == vmi.UID || again.Spec.Domain.Firmware.UUID != identity {
		t.Errorf("after the guest shut down: %+v, want another with the same identity", again)
	}
}

func TestNothingIsPropagatedIntoAGuest(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	c.setPhase(v1.Running)
	before := c.vmi()
	vm := c.vm()
	vm.Spec.Template.Spec.Hostname = "new"
	if err := c.Update(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	c.reconcileRepeatedly()
	if diff := cmp.Diff(before, c.vmi()); diff != "" {
		t.Errorf("the running guest changed (-before +after):\n%s", diff)
	}
	if got := c.vm().Status.PrintableStatus; got != v1.VirtualMachineStatusRunning {
		t.Errorf("status %s", got)
	}
}

func TestForeignVMIOfTheName(t *testing.T) {
	foreign := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace, UID: "foreign"}}
	c := newCluster(t, newVM(v1.RunStrategyHalted), foreign)
	c.reconcileRepeatedly()
	if c.vmi() == nil {
		t.Fatal("a VMI that the VM does not own was deleted")
	}
	c.setRunStrategy(v1.RunStrategyAlways)
	c.reconcileRepeatedly()
	if got := conditionReasons(c.vm()); !slices.Contains(got, "NameTaken") || c.vmi().UID != "foreign" {
		t.Errorf("conditions %v", got)
	}
}

// TestDeletedSinceItWasRead: the deletion of a VM is no error, whether the write of its pins or the write of its status does not find the VM.
func TestDeletedSinceItWasRead(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		c := newCluster(t, newVM(v1.RunStrategyHalted))
		if pinned {
			c.reconcileRepeatedly()
			vm := c.vm()
			vm.Status = v1.VirtualMachineStatus{}
			if err := c.Status().Update(t.Context(), vm); err != nil {
				t.Fatal(err)
			}
		}
		c.controller.ownWrites.Forget(key)
		c.freezeVMCache()
		if err := c.Delete(t.Context(), c.vm()); err != nil {
			t.Fatal(err)
		}
		if result, err := c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil || result != (ctrl.Result{}) {
			t.Errorf("pinned %t: %+v, %v", pinned, result, err)
		}
	}
}
