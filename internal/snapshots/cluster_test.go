package snapshots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/test/fakecluster"
	"github.com/kilnvm/kiln/test/slimmed"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// key is the key of the VM of these tests.
var key = at("web")

func at(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "team", Name: name}
}

// cluster is a cluster in memory with its own clock, and the reconcilers of one process at a time.
type cluster struct {
	*testing.T
	client.WithWatch
	reconcilers *reconcilers
	now         time.Time
	created     int
	writes      []string
	// dieAfter is the number of writes after which the process dies; 0 for never. The last write is stored, and returns an error.
	dieAfter int
	// denied are the rights that the creator of a restore lacks, as 'verb resource'.
	denied map[string]bool
	// refuseVM refuses VMs at admission, dry runs included. refuseWrite refuses writes only.
	refuseVM    func(*v1.VirtualMachine) error
	refuseWrite func(client.Object) error
	// whileDead runs after a process died, and before the next one starts.
	whileDead func()
	agent     quiesce.Agent
}

var errDied = errors.New("the process died")

// withVolumeSnapshots has the cluster serve VolumeSnapshots.
var withVolumeSnapshots = fakecluster.VolumeSnapshotKinds

func newCluster(t *testing.T, served []schema.GroupVersionKind, objects ...client.Object) *cluster {
	t.Helper()
	c := &cluster{T: t, WithWatch: fakecluster.NewClient(t, served, objects...), now: fakecluster.Start, denied: map[string]bool{}}
	c.restart()
	return c
}

// restart replaces the process.
func (c *cluster) restart() {
	c.dieAfter = 0
	live := interceptor.NewClient(c.WithWatch, interceptor.Funcs{Create: c.create, Patch: c.patch, Delete: c.delete, SubResourcePatch: c.patchStatus})
	c.reconcilers = newReconcilers(Options{Cache: slimmed.Client(live), Live: live, Configuration: config.Default, Events: events.NewFakeRecorder(1000),
		Now: func() time.Time { return c.now }, Agent: c.agent})
	c.reconcilers.quiescer.Requests.Go = func(work func()) { work() }
}

// recordWrite records a write that succeeded, and returns the error of a process that dies after it.
func (c *cluster) recordWrite(verb string, object client.Object, err error) error {
	if err != nil {
		return err
	}
	c.writes = append(c.writes, fmt.Sprintf("%s %T %s", verb, object, object.GetName()))
	if c.dieAfter--; c.dieAfter == 0 {
		return errDied
	}
	return nil
}

// create does what the API server does: it sets UID and time, and answers access reviews and dry runs.
func (c *cluster) create(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
	if review, is := object.(*authorizationv1.SubjectAccessReview); is {
		of := review.Spec.ResourceAttributes
		review.Status.Allowed = review.Spec.User == "alice" && !c.denied[of.Verb+" "+of.Resource]
		return nil
	}
	if err := c.admit(object); err != nil {
		return err
	}
	if of := (&client.CreateOptions{}).ApplyOptions(options); len(of.DryRun) > 0 {
		found := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), found); err == nil {
			return apierrors.NewAlreadyExists(schema.GroupResource{}, object.GetName())
		} else {
			return client.IgnoreNotFound(err)
		}
	}
	if c.refuseWrite != nil {
		if err := c.refuseWrite(object); err != nil {
			return err
		}
	}
	c.created++
	object.SetUID(types.UID(fmt.Sprintf("%08d-bbbb", c.created)))
	object.SetCreationTimestamp(metav1.NewTime(c.now))
	return c.recordWrite("create", object, to.Create(ctx, object, options...))
}

// admit returns the refusal of admission.
func (c *cluster) admit(object client.Object) error {
	if vm, is := object.(*v1.VirtualMachine); is && c.refuseVM != nil {
		return c.refuseVM(vm)
	}
	return nil
}

func (c *cluster) patch(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if err := c.admit(object); err != nil {
		return err
	}
	if of := (&client.PatchOptions{}).ApplyOptions(options); len(of.DryRun) > 0 {
		return nil
	}
	if c.refuseWrite != nil {
		if err := c.refuseWrite(object); err != nil {
			return err
		}
	}
	return c.recordWrite("patch", object, to.Patch(ctx, object, patch, options...))
}

func (c *cluster) delete(ctx context.Context, to client.WithWatch, object client.Object, options ...client.DeleteOption) error {
	return c.recordWrite("delete", object, to.Delete(ctx, object, options...))
}

func (c *cluster) patchStatus(
	ctx context.Context, to client.Client, of string, object client.Object, p client.Patch, o ...client.SubResourcePatchOption,
) error {
	return c.recordWrite("patch "+of+" of", object, to.SubResource(of).Patch(ctx, object, p, o...))
}

// reconcileAll reconciles all objects until nobody writes any more, and replaces a process that dies. meanwhile runs between two rounds.
func (c *cluster) reconcileAll(meanwhile ...func()) {
	c.Helper()
	for range 60 {
		before := len(c.writes)
		for _, of := range []struct {
			step func(context.Context, types.NamespacedName) (time.Duration, error)
			list client.ObjectList
		}{
			{c.reconcilers.snapshot.Reconcile, &api.VirtualMachineSnapshotList{}}, {c.reconcilers.content.Reconcile, &api.VirtualMachineSnapshotContentList{}},
			{c.reconcilers.restore.Reconcile, &api.VirtualMachineRestoreList{}}, {c.reconcilers.clone.Reconcile, &clone.VirtualMachineCloneList{}},
			{c.reconcilers.orphans.Reconcile, &v1.VirtualMachineList{}},
		} {
			for _, name := range c.objectNames(of.list) {
				_, err := of.step(c.Context(), at(name))
				switch {
				case errors.Is(err, errDied):
					if c.whileDead != nil {
						c.whileDead()
					}
					c.restart()
				case err != nil && !apierrors.IsConflict(err):
					c.Fatal(err)
				}
			}
		}
		for _, do := range meanwhile {
			do()
		}
		if len(c.writes) == before {
			return
		}
	}
	c.Fatalf("no end of writes: %v", c.writes[len(c.writes)-10:])
}

// objectNames returns the names of the objects that are reconciled.
func (c *cluster) objectNames(list client.ObjectList) (names []string) {
	c.Helper()
	c.must(c.List(c.Context(), list, client.InNamespace(key.Namespace)))
	switch list := list.(type) {
	case *api.VirtualMachineSnapshotList:
		for _, of := range list.Items {
			names = append(names, of.Name)
		}
	case *api.VirtualMachineSnapshotContentList:
		for _, of := range list.Items {
			names = append(names, of.Name)
		}
	case *api.VirtualMachineRestoreList:
		for _, of := range list.Items {
			names = append(names, of.Name)
		}
	case *v1.VirtualMachineList:
		for _, of := range list.Items {
			if vmlock.IsLocked(&of) {
				names = append(names, of.Name)
			}
		}
	case *clone.VirtualMachineCloneList:
		for _, of := range list.Items {
			names = append(names, of.Name)
		}
	}
	return names
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// readObject returns an object, and nil if it does not exist.
func readObject[O interface {
	*E
	client.Object
}, E any](c *cluster, name string, into O) O {
	c.Helper()
	found, err := objects.GetOrNil(c.Context(), c.WithWatch, at(name), into)
	c.must(err)
	return found
}

func (c *cluster) vm(name string) *v1.VirtualMachine {
	return readObject(c, name, &v1.VirtualMachine{})
}

func (c *cluster) hardware(name string) *v1alpha1.GuestHardware {
	return readObject(c, name, &v1alpha1.GuestHardware{})
}

// hasEvent reports whether an event with a reason was recorded. It removes the events before it.
func (c *cluster) hasEvent(reason string) bool {
	recorder := c.reconcilers.cluster.Events.(*events.FakeRecorder)
	for {
		select {
		case text := <-recorder.Events:
			if strings.Contains(text, " "+reason+" ") {
				return true
			}
		default:
			return false
		}
	}
}
