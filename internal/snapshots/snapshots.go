// Package snapshots keeps VMs as they were, brings them back, and clones them: VirtualMachineSnapshots with their contents, VirtualMachineRestores and
// VirtualMachineClones. What a snapshot holds, and whether that may be activated again, is for pkg/snapshot to say.
//
// Such objects are few, so that they are read from the API server whenever they are decided about. Each step is one write, and whichever step was the last
// one is seen in what is stored: a process that dies goes on at any of them.
package snapshots

import (
	"context"
	"errors"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/fairqueue"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownwrite"
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Controller reconciles snapshots, restores and clones.
type Controller struct {
	// Client reads from informers.
	Client client.Client
	// Live reads and writes past the cache.
	Live          client.Client
	Configuration func() config.Cluster
	Events        events.EventRecorder
	Now           func() time.Time
	// Agent quiets guests while their volumes are snapshotted; nil where no guest can be asked.
	Agent Agent

	asks asks
}

const (
	// conflictRetry is the time after which a write that lost a race is repeated.
	conflictRetry = 50 * time.Millisecond
	// poll is how often something is looked at that is not watched: a guest that is to stop, a VolumeSnapshot, a claim. It is KubeVirt's.
	poll = 5 * time.Second
	// workers is how many objects of a kind are decided about at a time: a step has up to some hundred requests.
	workers = 4
	// soon is the time after a step until the next one, where no event tells.
	soon = 100 * time.Millisecond
)

// Register adds the controllers to a manager. A cluster whose definitions are older than this process does not serve the kinds: VMs are served all the same.
func (c *Controller) Register(mgr ctrl.Manager) error {
	for _, kind := range []schema.GroupVersionKind{api.SchemeGroupVersion.WithKind("VirtualMachineSnapshot"), clone.VirtualMachineCloneKind} {
		if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			mgr.GetLogger().Info("the cluster does not serve the kind: apply the definitions of this release, and restart this process", "kind", kind.Kind)
			return nil
		} else if err != nil {
			return err
		}
	}
	named := func(name string) *builder.Builder {
		return ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New})
	}
	return errors.Join(
		mgr.Add(&c.asks),
		named("virtualmachinesnapshot").For(&api.VirtualMachineSnapshot{}).
			Watches(&api.VirtualMachineSnapshotContent{}, handler.EnqueueRequestsFromMapFunc(ofContent)).
			Complete(retrying(c.snapshot)),
		named("virtualmachinesnapshotcontent").For(&api.VirtualMachineSnapshotContent{}).
			Watches(&api.VirtualMachineSnapshot{}, handler.EnqueueRequestsFromMapFunc(contentOf)).
			Complete(retrying(c.content)),
		named("virtualmachinerestore").For(&api.VirtualMachineRestore{}).
			Complete(retrying(c.restore)),
		named("virtualmachinelock").For(&v1.VirtualMachine{}, builder.WithPredicates(predicate.NewPredicateFuncs(isLocked))).
			Complete(retrying(c.free)),
		named("virtualmachineclone").For(&clone.VirtualMachineClone{}).
			Owns(&api.VirtualMachineSnapshot{}).Owns(&api.VirtualMachineRestore{}).
			Complete(retrying(c.clone)))
}

// waiting returns when something is looked at again that waits for somebody: later and later, a tenth of the time that it has waited. A tenant may make ten
// thousand objects that wait for ever.
func waiting(waited time.Duration) time.Duration {
	const part, most = 10, 5 * time.Minute
	return min(max(waited/part, poll), most)
}

// ofContent is the snapshot of a content.
func ofContent(_ context.Context, object client.Object) []ctrl.Request {
	content, is := object.(*api.VirtualMachineSnapshotContent)
	if !is || content.Spec.VirtualMachineSnapshotName == nil {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: content.Namespace, Name: *content.Spec.VirtualMachineSnapshotName}}}
}

// contentOf is the content of a snapshot.
func contentOf(_ context.Context, object client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: contentName(object.GetUID())}}}
}

// step brings an object one step further, and returns after which time it is to be looked at again; 0 for never.
type step func(context.Context, types.NamespacedName) (time.Duration, error)

// retrying returns a lost race as a request to try again, not as an error: it is neither Kiln's nor the user's fault.
func retrying(of step) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		after, err := of(ctx, request.NamespacedName)
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: conflictRetry}, nil
		}
		if ownwrite.Gone(err, request.Name, "virtualmachinesnapshots", "virtualmachinesnapshotcontents", "virtualmachinerestores", "virtualmachineclones") {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{RequeueAfter: after}, err
	})
}

// patch writes what a change makes of an object, if it makes something else. It fails with a conflict if the object has changed since it was read. The object
// is then as it is stored.
func (c *Controller) patch(ctx context.Context, object client.Object, change func()) error {
	before := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type
	change()
	if same, err := unchanged(object, before); err != nil || same {
		return err
	}
	return objects.Patch(ctx, c.Live, object, before)
}

// patchStatus is patch for the status.
func (c *Controller) patchStatus(ctx context.Context, object client.Object, change func()) error {
	before := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // as above
	change()
	if same, err := unchanged(object, before); err != nil || same {
		return err
	}
	return objects.PatchStatus(ctx, c.Live, object, before)
}

// unchanged reports whether two versions of an object are the same as JSON.
func unchanged(object, before client.Object) (bool, error) {
	text, err := client.MergeFrom(before).Data(object)
	return string(text) == "{}", err
}

// normal and warning write an event.
func (c *Controller) normal(about client.Object, reason, note string) {
	c.Events.Eventf(about, nil, corev1.EventTypeNormal, reason, "Reconcile", "%s", condition.Note(note))
}

func (c *Controller) warning(about client.Object, reason, note string) {
	c.Events.Eventf(about, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", condition.Note(note))
}

// warnAfterWrite writes the event about a write that succeeded, and returns the error of the write. A write that is repeated after a conflict must not repeat
// its event.
func (c *Controller) warnAfterWrite(write error, about client.Object, reason, note string) error {
	if write == nil {
		c.warning(about, reason, note)
	}
	return write
}

// failed is warnAfterWrite for the write that ends an operation, which it counts.
func (c *Controller) failed(operation string, write error, about client.Object, reason, note string) error {
	return ended(operation, resultFailed, c.warnAfterWrite(write, about, reason, note))
}
