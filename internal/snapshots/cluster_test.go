package snapshots

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
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

// key is that of the VM of these tests.
var key = at("web")

func at(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "team", Name: name}
}

// cluster is a controller over client-go's in-memory tracker, with a clock of its own.
type cluster struct {
	*testing.T
	client.WithWatch
	reconcilers *reconcilers
	now         time.Time
	created     int
	writes      []string
	// fails is the number of the write that fails after it was done, as when the process dies; 0 for none.
	fails int
	// denied are the rights that the asker lacks, as 'verb resource'.
	denied map[string]bool
	// refuse is admission's refusal of a VM, nil for none, and refuseWrite that of what a dry run does not show.
	refuse      func(*v1.VirtualMachine) error
	refuseWrite func(client.Object) error
	// died is what happens while no process runs.
	died  func()
	agent quiesce.Agent
}

var errDied = errors.New("this process is no more")

// withVolumeSnapshots has the cluster serve VolumeSnapshots.
var withVolumeSnapshots = fakecluster.VolumeSnapshotKinds

func newCluster(t *testing.T, served []schema.GroupVersionKind, objects ...client.Object) *cluster {
	t.Helper()
	c := &cluster{T: t, WithWatch: fakecluster.NewClient(t, served, objects...), now: fakecluster.Start, denied: map[string]bool{}}
	c.restart()
	return c
}

// restart starts another process.
func (c *cluster) restart() {
	c.fails = 0
	live := interceptor.NewClient(c.WithWatch, interceptor.Funcs{Create: c.create, Patch: c.patch, Delete: c.delete, SubResourcePatch: c.patchStatus})
	c.reconcilers = newReconcilers(Options{Cache: slimmed.Client(live), Live: live, Configuration: config.Default, Events: events.NewFakeRecorder(1000),
		Now: func() time.Time { return c.now }, Agent: c.agent})
	c.reconcilers.quiescer.Requests.Go = func(work func()) { work() }
}

// wrote notes a write that was done, and returns the error of a process that dies after it.
func (c *cluster) wrote(verb string, object client.Object, err error) error {
	if err != nil {
		return err
	}
	c.writes = append(c.writes, fmt.Sprintf("%s %T %s", verb, object, object.GetName()))
	if c.fails--; c.fails == 0 {
		return errDied
	}
	return nil
}

// create gives what the API server gives: a UID, the time, and the answers to reviews and dry runs.
func (c *cluster) create(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
	if review, is := object.(*authorizationv1.SubjectAccessReview); is {
		of := review.Spec.ResourceAttributes
		review.Status.Allowed = review.Spec.User == "alice" && !c.denied[of.Verb+" "+of.Resource]
		return nil
	}
	if err := c.refused(object); err != nil {
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
	return c.wrote("create", object, to.Create(ctx, object, options...))
}

// refused asks admission.
func (c *cluster) refused(object client.Object) error {
	if vm, is := object.(*v1.VirtualMachine); is && c.refuse != nil {
		return c.refuse(vm)
	}
	return nil
}

func (c *cluster) patch(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if err := c.refused(object); err != nil {
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
	return c.wrote("patch", object, to.Patch(ctx, object, patch, options...))
}

func (c *cluster) delete(ctx context.Context, to client.WithWatch, object client.Object, options ...client.DeleteOption) error {
	return c.wrote("delete", object, to.Delete(ctx, object, options...))
}

func (c *cluster) patchStatus(
	ctx context.Context, to client.Client, of string, object client.Object, p client.Patch, o ...client.SubResourcePatchOption,
) error {
	return c.wrote("patch "+of+" of", object, to.SubResource(of).Patch(ctx, object, p, o...))
}

// step reconciles everything as often as events would, a death of the process included. meanwhile is what others do between two steps.
func (c *cluster) step(meanwhile ...func()) {
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
			for _, name := range c.names(of.list) {
				_, err := of.step(c.Context(), at(name))
				switch {
				case errors.Is(err, errDied):
					if c.died != nil {
						c.died()
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
