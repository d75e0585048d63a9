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

	"github.com/kilnvm/kiln/internal/fairqueue"
	"github.com/kilnvm/kiln/internal/snapshots/hardware"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
	"github.com/kilnvm/kiln/internal/snapshots/vmclone"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
	"github.com/kilnvm/kiln/internal/snapshots/vmrestore"
	"github.com/kilnvm/kiln/internal/snapshots/vmsnapshot"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Controller reconciles snapshots, restores and clones.
type Controller struct {
	// Client reads from informers.
	Client client.Client
	*operation.Cluster
	Configuration func() config.Cluster
	Quiescer      *quiesce.Quiescer
}

// workers is how many objects of a kind are decided about at a time: a step has up to some hundred requests.
const workers = 4

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
		mgr.Add(c.Quiescer.Requests),
		named("virtualmachinesnapshot").For(&api.VirtualMachineSnapshot{}).
			Watches(&api.VirtualMachineSnapshotContent{}, handler.EnqueueRequestsFromMapFunc(ofContent)).
			Complete(operation.RetryConflicts(c.snapshot)),
		named("virtualmachinesnapshotcontent").For(&api.VirtualMachineSnapshotContent{}).
			Watches(&api.VirtualMachineSnapshot{}, handler.EnqueueRequestsFromMapFunc(contentOf)).
			Complete(operation.RetryConflicts(c.content)),
		named("virtualmachinerestore").For(&api.VirtualMachineRestore{}).
			Complete(operation.RetryConflicts(c.restore)),
		named("virtualmachinelock").For(&v1.VirtualMachine{}, builder.WithPredicates(predicate.NewPredicateFuncs(vmlock.IsLocked))).
			Complete(operation.RetryConflicts(c.orphans().Reconcile)),
		named("virtualmachineclone").For(&clone.VirtualMachineClone{}).
			Owns(&api.VirtualMachineSnapshot{}).Owns(&api.VirtualMachineRestore{}).
			Complete(operation.RetryConflicts(c.clone)))
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
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: operation.ContentName(object.GetUID())}}}
}

// Metrics returns the metrics of snapshots, restores and clones.
func Metrics() []prometheus.Collector { return operation.Metrics() }

func (c *Controller) hardware() hardware.Writer { return hardware.Writer{Cluster: c.Cluster} }

func (c *Controller) locker() *vmlock.Locker {
	return &vmlock.Locker{Cluster: c.Cluster, Hardware: c.hardware()}
}

func (c *Controller) orphans() *vmlock.OrphanReconciler {
	return &vmlock.OrphanReconciler{Locker: c.locker(), Cache: c.Client, Quiescer: c.Quiescer}
}

func (c *Controller) snapshot(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	return vmsnapshot.New(c.Cluster, c.orphans(), c.Quiescer).Reconcile(ctx, key)
}

func (c *Controller) content(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	return (&vmsnapshot.ContentReconciler{Cluster: c.Cluster}).Reconcile(ctx, key)
}

func (c *Controller) restore(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	return vmrestore.New(c.Cluster, c.Configuration, c.orphans()).Reconcile(ctx, key)
}

func (c *Controller) clone(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	return vmclone.New(c.Cluster).Reconcile(ctx, key)
}
