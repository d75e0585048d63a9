// Package node runs the VMIs of one bare machine: it claims them in the cluster, starts and stops their domains, and reports phases, conditions and events.
package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/identity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Node runs the VMIs of one machine. It writes only VMIs that it has claimed.
type Node struct {
	client.Client
	// Live reads from the API server, past the cache.
	Live client.Reader
	// Events records events of VMIs.
	Events events.EventRecorder
	// Cluster is the UID of this cluster. A launcher with another cluster's kubeconfig does not end the domains of this cluster.
	Cluster types.UID
	Name    string
	Labels  map[string]string
	KVM     hypervisor.KVM
	// Hypervisor is the libvirt of this machine.
	Hypervisor Hypervisor
	// Assumed is used as the machine's capabilities until libvirt reports them.
	Assumed backend.Capabilities
	Machine *hostresources.BareMachine
	// Configuration is the cluster's configuration. Its defaults apply to new domains where the API has no field.
	Configuration *clusterconfig.Watcher
	// Lease is the Lease of the node's name; nil if no other launcher can have the name.
	Lease *Lease

	cpuReservations cpuReservations
	learnedFacts    atomic.Pointer[backend.Capabilities]
	stopTimes       stopTimes
	// connected wakes keepLearning when a stream of events begins, strayInTheWay wakes keepEndingStrays when a name is taken.
	connected, strayInTheWay chan struct{}
}

// workers is the number of VMIs that are reconciled at the same time: an image that hangs must not delay the stop of other VMIs.
const workers = 8

// SetupWithManager registers the controller of VMIs and the machine's periodic work.
func (n *Node) SetupWithManager(mgr ctrl.Manager) error {
	n.connected, n.strayInTheWay = make(chan struct{}, 1), make(chan struct{}, 1)
	builder := ctrl.NewControllerManagedBy(mgr).For(&v1.VirtualMachineInstance{}).Named("launcher").
		WatchesRawSource(source.Func(n.queueChanges)).
		// Only metadata: a guest waits until the controller has named it in its GuestHardware, and then reads that object.
		WatchesMetadata(&v1alpha1.GuestHardware{}, &handler.EnqueueRequestForObject{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	_, err := mgr.GetRESTMapper().RESTMapping(v1alpha1.GroupVersion.WithKind("HostProfile").GroupKind())
	switch {
	case err == nil:
		builder = builder.Watches(&v1alpha1.HostProfile{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []ctrl.Request {
			return n.claimedRequests(ctx)
		}))
	case !meta.IsNoMatchError(err):
		return err
	}
	err = builder.Complete(n)
	for _, work := range []manager.RunnableFunc{n.keepLearning, n.keepEndingStrays} {
		err = errors.Join(err, mgr.Add(work))
	}
	return err
}

// queueChanges queues the VMI of each domain whose state changes. It queues all VMIs of this node when the hardware of a domain changes, or when changes may
// have been missed.
func (n *Node) queueChanges(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	go n.Hypervisor.Watch(ctx, func(event hypervisor.Event) {
		if event.Domain != "" {
			if vmi, known := identity.OfDomain(event.Domain); known {
				queue.Add(ctrl.Request{NamespacedName: vmi})
			}
			return
		}
		guest.WakeReceiver(n.connected)
		n.queueClaimed(ctx, queue)
	})
	go n.Hypervisor.WatchHardware(ctx, func() { n.queueClaimed(ctx, queue) })
	return nil
}

// queueClaimed queues all VMIs of this node.
func (n *Node) queueClaimed(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	for _, request := range n.claimedRequests(ctx) {
		queue.Add(request)
	}
}

// claimedRequests returns a request for each VMI of this node.
func (n *Node) claimedRequests(ctx context.Context) (requests []ctrl.Request) {
	var all v1.VirtualMachineInstanceList
	if err := n.List(ctx, &all); err != nil {
		ctrl.LoggerFrom(ctx).Info("the VMIs of this node cannot be listed; each is reconciled within "+resyncInterval.String(), "reason", err.Error())
	}
	for i := range all.Items {
		if all.Items[i].Status.NodeName == n.Name {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return requests
}

// Reconcile makes the next step for one VMI. After a conflict it requeues the VMI, because the event of the other change may have come before.
func (n *Node) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vmi := &v1.VirtualMachineInstance{}
	if err := n.Get(ctx, request.NamespacedName, vmi); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !n.holdsLease() {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if !n.Configuration.Synced() {
		// Wait for the configuration, because the first boot records its defaults permanently.
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if !n.factsLearned() {
		return ctrl.Result{RequeueAfter: learnInterval}, n.renderUnclaimed(ctx, vmi)
	}
	result, err := n.reconcileVMI(ctx, vmi)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return result, err
}

// reconcileVMI makes the next step for a VMI. The cases are in order of precedence: a deleted VMI is stopped in every phase, and a VMI is started only with the
// finalizer, without which the VMI could be gone while its domain runs.
func (n *Node) reconcileVMI(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	switch {
	case vmi.Status.NodeName == "" && vmi.DeletionTimestamp.IsZero() && n.canClaim(vmi):
		return ctrl.Result{}, n.claimVMI(ctx, vmi)
	case vmi.Status.NodeName != n.Name:
		return ctrl.Result{}, nil
	case !vmi.DeletionTimestamp.IsZero():
		return n.stopVMI(ctx, vmi)
	case controllerutil.AddFinalizer(vmi, v1.VirtualMachineInstanceFinalizer):
		return ctrl.Result{}, n.Update(ctx, vmi) // the update comes back as an event
	case vmi.Status.Phase == v1.Scheduled:
		return n.startVMI(ctx, vmi)
	case vmi.Status.Phase == v1.Running:
		return n.reportActiveVMI(ctx, vmi)
	}
	return ctrl.Result{}, nil
}

// owner returns the owner of the VMI's domain.
func (n *Node) owner(vmi *v1.VirtualMachineInstance) hypervisor.Owner {
	return hypervisor.Owner{Cluster: n.Cluster, Namespace: vmi.Namespace, Name: vmi.Name, UID: vmi.UID, Node: n.Name}
}

// Identify sets Cluster to the UID of namespace kube-system.
func (n *Node) Identify(ctx context.Context) error {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := n.Live.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return fmt.Errorf("cannot read namespace '%s', whose UID identifies the cluster: %w; apply manifests/rbac", metav1.NamespaceSystem, err)
	}
	n.Cluster = namespace.UID
	return nil
}
