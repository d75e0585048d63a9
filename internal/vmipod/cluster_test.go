package vmipod

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/slimmed"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	// onDelete is called with the options of each deletion.
	onDelete func(client.DeleteOptions)
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
		WithStatusSubresource(&v1.VirtualMachineInstance{}, &corev1.Pod{}, &v1alpha1.GuestPod{}, &v1alpha1.GuestHardware{}).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(event client.Object) []string {
			return []string{string(event.(*corev1.Event).InvolvedObject.UID)}
		}).Build()
	c.restart()
	return c
}

// restart starts another process.
func (c *cluster) restart() {
	c.fails = 0
	live := interceptor.NewClient(c.WithWatch, interceptor.Funcs{Create: c.create, Patch: c.patch, Delete: c.delete, SubResourcePatch: c.patchStatus})
	c.controller = New(Options{
		Client: slimmed.Client(live), Live: live, Configuration: config.Default, Configured: func() bool { return true },
		Settings: pod.Settings{Image: "launcher:1", Network: pod.Passt},
		Events:   events.NewFakeRecorder(100), Now: func() time.Time { return c.now },
	})
}

// noteWrite records a write that was done. It returns an error if the process is to die after this write.
func (c *cluster) noteWrite(verb string, object client.Object, err error) error {
	if err != nil {
		return err
	}
	c.writes = append(c.writes, fmt.Sprintf("%s %T", verb, object))
	if c.fails--; c.fails == 0 {
		return errDied
	}
	return nil
}

// create sets what the API server sets: the UID and the time.
func (c *cluster) create(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
	if c.refuse != nil {
		if err := c.refuse(object); err != nil {
			return err
		}
	}
	if of := (&client.CreateOptions{}).ApplyOptions(options); len(of.DryRun) > 0 {
		return c.dryRun(ctx, object)
	}
	c.created++
	object.SetUID(types.UID(fmt.Sprintf("%08d-bbbb", c.created)))
	object.SetCreationTimestamp(metav1.NewTime(c.now))
	return c.noteWrite("create", object, to.Create(ctx, object, options...))
}

// dryRun answers like the API server, because the tracker has no dry run: it fails if an object has the name.
func (c *cluster) dryRun(ctx context.Context, object client.Object) error {
	found := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type
	err := c.Get(ctx, client.ObjectKeyFromObject(object), found)
	if err == nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, object.GetName())
	}
	return client.IgnoreNotFound(err)
}

func (c *cluster) patch(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return c.noteWrite("patch", object, to.Patch(ctx, object, patch, options...))
}

func (c *cluster) delete(ctx context.Context, to client.WithWatch, object client.Object, options ...client.DeleteOption) error {
	if c.onDelete != nil {
		c.onDelete(*(&client.DeleteOptions{}).ApplyOptions(options))
	}
	return c.noteWrite("delete", object, to.Delete(ctx, object, options...))
}

func (c *cluster) patchStatus(
	ctx context.Context, to client.Client, of string, object client.Object, p client.Patch, o ...client.SubResourcePatchOption,
) error {
	var err error
	if of == "resize" { // the tracker knows none, and nothing else of the pod is patched
		err = c.resize(ctx, object, p)
	} else {
		err = to.SubResource(of).Patch(ctx, object, p, o...)
	}
	if err == nil && c.onStatus != nil {
		c.onStatus(object)
	}
	return c.noteWrite("patch "+of+" of", object, err)
}

// reconcileAll reconciles until nothing is written any more. Meanwhile it assigns the hardware, as internal/lifecycle does.
func (c *cluster) reconcileAll() (result ctrl.Result) {
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
		c.assignHardware()
		if len(c.writes) == before && result.RequeueAfter != conflictRetry {
			break
		}
	}
	return result
}

// assignHardware does what internal/lifecycle does for a VMI that has a node.
func (c *cluster) assignHardware() {
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

// read returns an object, nil if it does not exist.
func read[O interface {
	*E
	client.Object
}, E any](c *cluster, key types.NamespacedName, into O) O {
	c.Helper()
	found, err := objects.GetOrNil(c.Context(), c.WithWatch, key, into)
	c.must(err)
	return found
}

func (c *cluster) vmi() *v1.VirtualMachineInstance { return read(c, key, &v1.VirtualMachineInstance{}) }

func (c *cluster) pod() *corev1.Pod { return read(c, podKey, &corev1.Pod{}) }

func (c *cluster) guestPod() *v1alpha1.GuestPod { return read(c, key, &v1alpha1.GuestPod{}) }
