// Package snapshots runs the reconcilers of VirtualMachineSnapshots and their contents, VirtualMachineRestores and VirtualMachineClones. pkg/snapshot
// defines what a snapshot contains, and whether it may be activated again.
//
// The reconcilers read these objects from the API server each time, because they are few. Each step is one write, and the stored objects show which step
// is next: another process continues if this one dies.
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
)

// Options are what the reconcilers need.
type Options struct {
	// Cache reads from informers.
	Cache client.Reader
	// Live reads and writes past the cache.
	Live          client.Client
	Configuration func() config.Cluster
	Events        events.EventRecorder
	Now           func() time.Time
	// Agent freezes guests while their volumes are snapshotted. It is nil if Kiln's API server of subresources is not installed.
	Agent quiesce.Agent
}

// reconcilers are the reconcilers of this package, and what they share.
type reconcilers struct {
	cluster  *operation.Cluster
	quiescer *quiesce.Quiescer

	snapshot *vmsnapshot.Reconciler
	content  *vmsnapshot.ContentReconciler
	restore  *vmrestore.Reconciler
	clone    *vmclone.Reconciler
	orphans  *vmlock.OrphanReconciler
}

func newReconcilers(options Options) *reconcilers {
	cluster := &operation.Cluster{Live: options.Live, Events: options.Events, Now: options.Now}
	quiescer := &quiesce.Quiescer{Cluster: cluster, Agent: options.Agent, Requests: quiesce.NewRequests()}
	locker := &vmlock.Locker{Cluster: cluster, Hardware: hardware.Writer{Cluster: cluster}}
	orphans := &vmlock.OrphanReconciler{Locker: locker, Cache: options.Cache, Quiescer: quiescer}
	return &reconcilers{
		cluster: cluster, quiescer: quiescer,
		snapshot: vmsnapshot.New(cluster, orphans, quiescer),
		content:  &vmsnapshot.ContentReconciler{Cluster: cluster},
		restore:  vmrestore.New(cluster, options.Configuration, orphans),
		clone:    vmclone.New(cluster),
		orphans:  orphans,
	}
}

// workers is how many objects of a kind are reconciled at a time. A step may send some hundred requests.
const workers = 4

// Register adds the reconcilers to a manager. It adds none if the cluster does not serve their kinds, because its definitions are older than this process:
// the controller reconciles VMs all the same.
func Register(mgr ctrl.Manager, options Options) error {
	for _, kind := range []schema.GroupVersionKind{api.SchemeGroupVersion.WithKind("VirtualMachineSnapshot"), clone.VirtualMachineCloneKind} {
		if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			mgr.GetLogger().Info("the cluster does not serve the kind: apply the definitions of this release, and restart this process", "kind", kind.Kind)
			return nil
		} else if err != nil {
			return err
		}
	}
	r := newReconcilers(options)
	named := func(name string) *builder.Builder {
		return ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New})
	}
	return errors.Join(
		mgr.Add(r.quiescer.Requests),
		named("virtualmachinesnapshot").For(&api.VirtualMachineSnapshot{}).
			Watches(&api.VirtualMachineSnapshotContent{}, handler.EnqueueRequestsFromMapFunc(snapshotOfContent)).
			Complete(operation.RetryConflicts(r.snapshot.Reconcile)),
		named("virtualmachinesnapshotcontent").For(&api.VirtualMachineSnapshotContent{}).
			Watches(&api.VirtualMachineSnapshot{}, handler.EnqueueRequestsFromMapFunc(contentOfSnapshot)).
			Complete(operation.RetryConflicts(r.content.Reconcile)),
		named("virtualmachinerestore").For(&api.VirtualMachineRestore{}).
			Complete(operation.RetryConflicts(r.restore.Reconcile)),
		named("virtualmachinelock").For(&v1.VirtualMachine{}, builder.WithPredicates(predicate.NewPredicateFuncs(vmlock.IsLocked))).
			Complete(operation.RetryConflicts(r.orphans.Reconcile)),
		named("virtualmachineclone").For(&clone.VirtualMachineClone{}).
			Owns(&api.VirtualMachineSnapshot{}).Owns(&api.VirtualMachineRestore{}).
			Complete(operation.RetryConflicts(r.clone.Reconcile)))
}

// snapshotOfContent returns a request for the snapshot of a content.
func snapshotOfContent(_ context.Context, object client.Object) []ctrl.Request {
	content, is := object.(*api.VirtualMachineSnapshotContent)
	if !is || content.Spec.VirtualMachineSnapshotName == nil {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: content.Namespace, Name: *content.Spec.VirtualMachineSnapshotName}}}
}

// contentOfSnapshot returns a request for the content of a snapshot.
func contentOfSnapshot(_ context.Context, object client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: operation.ContentName(object.GetUID())}}}
}

// Metrics returns the metrics of snapshots, restores and clones.
func Metrics() []prometheus.Collector { return operation.Metrics() }
