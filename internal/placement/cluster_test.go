package placement

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/slimmed"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

var (
	key    = types.NamespacedName{Namespace: "team", Name: "a"}
	podKey = types.NamespacedName{Namespace: "team", Name: pod.Name("a")}
)

// cluster is a controller over client-go's in-memory tracker, with a clock of its own. The test is scheduler, kubelet, launcher and internal/lifecycle.
type cluster struct {
	*testing.T
	client.WithWatch
	controller *Controller
	now        time.Time
	created    int
	writes     []string
	// fails is the number of the write that fails after it was done, as when the process dies; 0 for none.
	fails int
	// refuse returns the API server's refusal of a new object, nil for none.
	refuse func(client.Object) error
	// onStatus is called with each object whose status was written.
	onStatus func(client.Object)
}

var errQuota = errors.New("exceeded quota: compute")

var errDied = errors.New("this process is no more")

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), v1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, now: time.Now().Truncate(time.Second)}
	// The default tracker keeps managed fields, whose library does not know the uint64 of some fields of a guest.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "the-cluster"}}, node("n1"), node("n2"))
	c.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(objects...).
		WithStatusSubresource(&v1.VirtualMachineInstance{}, &corev1.Pod{}, &v1alpha1.GuestPod{}, &v1alpha1.GuestHardware{}).Build()
	c.restart()
	return c
}

// restart starts another process.
func (c *cluster) restart() {
	c.fails = 0
	live := interceptor.NewClient(c.WithWatch, interceptor.Funcs{Create: c.create, Patch: c.patch, Delete: c.delete, SubResourcePatch: c.patchStatus})
	c.controller = &Controller{
		Client: slimmed.Client(live), Live: live, Configuration: config.Default, Configured: func() bool { return true },
		Settings: pod.Settings{Image: "launcher:1", Network: pod.Passt},
		Events:   events.NewFakeRecorder(100), Now: func() time.Time { return c.now },
	}
}

// wrote notes a write that was done, and returns the error of a process that dies after it.
func (c *cluster) wrote(verb string, object client.Object, err error) error {
	if err != nil {
		return err
	}
	c.writes = append(c.writes, fmt.Sprintf("%s %T", verb, object))
	if c.fails--; c.fails == 0 {
		return errDied
	}
	return nil
}

// create gives what the API server gives: a UID, and the time.
func (c *cluster) create(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
	if c.refuse != nil {
		if err := c.refuse(object); err != nil {
			return err
		}
	}
	c.created++
	object.SetUID(types.UID(fmt.Sprintf("%08d-bbbb", c.created)))
	object.SetCreationTimestamp(metav1.NewTime(c.now))
	return c.wrote("create", object, to.Create(ctx, object, options...))
}

func (c *cluster) patch(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return c.wrote("patch", object, to.Patch(ctx, object, patch, options...))
}

func (c *cluster) delete(ctx context.Context, to client.WithWatch, object client.Object, options ...client.DeleteOption) error {
	return c.wrote("delete", object, to.Delete(ctx, object, options...))
}

func (c *cluster) patchStatus(
	ctx context.Context, to client.Client, of string, object client.Object, p client.Patch, o ...client.SubResourcePatchOption,
) error {
	err := to.SubResource(of).Patch(ctx, object, p, o...)
	if err == nil && c.onStatus != nil {
		c.onStatus(object)
	}
	return c.wrote("patch "+of+" of", object, err)
}

// step reconciles as often as the events of its own writes would, and internal/lifecycle assigns the hardware meanwhile.
func (c *cluster) step() (result ctrl.Result) {
	c.Helper()
	for range 12 {
		before := len(c.writes)
		var err error
		if result, err = c.controller.Reconcile(c.Context(), ctrl.Request{NamespacedName: key}); errors.Is(err, errDied) {
			c.restart()
			continue
		} else if err != nil {
			c.Fatal(err)
		}
		c.assign()
		if len(c.writes) == before && result.RequeueAfter != conflictRetry {
			break
		}
	}
	return result
}

// assign is what internal/lifecycle does for a VMI that has a node.
func (c *cluster) assign() {
	c.Helper()
	vmi := c.vmi()
	if vmi == nil || vmi.Status.NodeName == "" || vmi.IsFinal() || vmi.DeletionTimestamp != nil {
		return
	}
	hardware := read(c, key, &v1alpha1.GuestHardware{})
	if hardware == nil {
		hardware = &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		c.must(c.WithWatch.Create(c.Context(), hardware))
	}
	if hardware.Status.Guest == nil || hardware.Status.Guest.UID != vmi.UID {
		hardware.Status.Guest = &v1alpha1.HardwareUser{UID: vmi.UID, NodeName: vmi.Status.NodeName}
		c.must(c.Status().Update(c.Context(), hardware))
	}
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// read returns an object, nil if there is none.
func read[O interface {
	*E
	client.Object
}, E any](c *cluster, key types.NamespacedName, into O) O {
	c.Helper()
	found, err := get(c.Context(), c.WithWatch, key, into)
	c.must(err)
	return found
}

func (c *cluster) vmi() *v1.VirtualMachineInstance { return read(c, key, &v1.VirtualMachineInstance{}) }

func (c *cluster) pod() *corev1.Pod { return read(c, podKey, &corev1.Pod{}) }

func (c *cluster) guest() *v1alpha1.GuestPod { return read(c, key, &v1alpha1.GuestPod{}) }

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name}}}
}

// guestless returns an explicit VMI of a VM that no controller has seen but for its first phase.
func guestless() *v1.VirtualMachineInstance {
	owner := metav1.OwnerReference{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "a", UID: "vm", Controller: new(true)}
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "a", UID: "0000-vmi", OwnerReferences: []metav1.OwnerReference{owner}, Finalizers: []string{v1.VirtualMachineInstanceFinalizer},
		Annotations: map[string]string{v1alpha1.AnnotationIdentity: "seed"},
	}}
	memory := resource.MustParse("256Mi")
	vmi.Spec = v1.VirtualMachineInstanceSpec{
		Architecture: "amd64",
		Domain: v1.DomainSpec{
			CPU: &v1.CPU{Cores: 1, Sockets: 1, Threads: 1, Model: "host-model"}, Memory: &v1.Memory{Guest: &memory},
			Machine: &v1.Machine{Type: "q35"},
			Devices: v1.Devices{Interfaces: []v1.Interface{{
				Name: "default", Model: "virtio", InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}},
			Features: &v1.Features{ACPI: v1.FeatureState{Enabled: new(true)}},
			Firmware: &v1.Firmware{UUID: "0e2ff28d-6b9f-4b8f-8f3e-8d3a3f6c9a11"},
		},
		Networks: []v1.Network{{Name: "default", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}}},
	}
	vmi.Status.Phase = v1.Pending
	return vmi
}

// bind is the scheduler.
func (c *cluster) bind(name string) {
	c.Helper()
	found := c.pod()
	found.Spec.NodeName = name
	c.must(c.Update(c.Context(), found))
}

// kubelet writes the status of the pod.
func (c *cluster) kubelet(write func(*corev1.PodStatus)) {
	c.Helper()
	found := c.pod()
	write(&found.Status)
	c.must(c.Status().Update(c.Context(), found))
}

// launcher writes the status of the GuestPod.
func (c *cluster) launcher(write func(*v1alpha1.GuestPodStatus)) {
	c.Helper()
	found := c.guest()
	write(&found.Status)
	c.must(c.Status().Update(c.Context(), found))
}

func (c *cluster) facts(machine string) {
	c.Helper()
	c.launcher(func(s *v1alpha1.GuestPodStatus) { s.Facts = &v1alpha1.GuestFacts{Machine: machine} })
}

func (c *cluster) domain(state v1alpha1.GuestDomainState, reason string) {
	c.Helper()
	c.launcher(func(s *v1alpha1.GuestPodStatus) {
		s.Domain = &v1alpha1.GuestDomain{State: state, Reason: reason, Message: "libvirt's words", Machine: "pc-q35-10.0"}
	})
}

// run brings the guest to phase Running.
func (c *cluster) run() {
	c.Helper()
	c.step()
	c.bind("n1")
	c.kubelet(func(s *corev1.PodStatus) {
		s.Phase, s.QOSClass, s.PodIPs = corev1.PodRunning, corev1.PodQOSBurstable, []corev1.PodIP{{IP: "10.1.0.7"}, {IP: "fd00::7"}}
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "compute", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	c.step()
	c.facts("pc-q35-10.0")
	c.step()
	c.domain(v1alpha1.GuestRunning, "")
	c.step()
}
