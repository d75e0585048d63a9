// Package node runs the VMIs of one machine: it claims them in the cluster, follows their domains, and reports phases, conditions and events.
package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/identity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

// Node runs the VMIs of one machine. It claims an unassigned VMI by a status update with its resource version, so one of
// two nodes loses, and writes only VMIs that it claimed.
type Node struct {
	client.Client
	// Live reads past the cache.
	Live client.Reader
	// Events records on VMIs how their domains ended.
	Events events.EventRecorder
	// Cluster identifies this cluster. A launcher that is given another cluster's kubeconfig by mistake ends no domain of this one.
	Cluster types.UID
	Name    string
	Labels  map[string]string
	KVM     hypervisor.KVM
	// Hypervisor is the libvirt of this machine.
	Hypervisor Hypervisor
	// Assumed are the capabilities of this machine until libvirt reports them.
	Assumed backend.Capabilities
	Machine *hostresources.BareMachine
	// Configuration is the cluster's. It sets what new domains have that no field of the API governs.
	Configuration *clusterconfig.Watcher
	// Lease is the Lease of the node's name; nil if nothing else can have that name.
	Lease *Lease

	cpus     cpuReservations
	learned  atomic.Pointer[backend.Capabilities]
	stopping stopping
	// connected wakes keepLearning when a stream of events begins, strayInTheWay wakes keepEndingStrays when a name is taken.
	connected, strayInTheWay chan struct{}
}

// workers is the number of VMIs that are reconciled at the same time: an image that hangs must not keep other VMIs from being stopped.
const workers = 8

// SetupWithManager registers the controller of VMIs and the machine's periodic work.
func (n *Node) SetupWithManager(mgr ctrl.Manager) error {
	n.connected, n.strayInTheWay = make(chan struct{}, 1), make(chan struct{}, 1)
	builder := ctrl.NewControllerManagedBy(mgr).For(&v1.VirtualMachineInstance{}).Named("launcher").
		WatchesRawSource(source.Func(n.queueChanges)).
		// Without their content: a guest waits until the controller has named it in one, and then reads that one.
		WatchesMetadata(&v1alpha1.GuestHardware{}, &handler.EnqueueRequestForObject{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	_, err := mgr.GetRESTMapper().RESTMapping(v1alpha1.GroupVersion.WithKind("HostProfile").GroupKind())
	switch {
	case err == nil:
		builder = builder.Watches(&v1alpha1.HostProfile{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []ctrl.Request {
			return n.claimed(ctx)
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

// queueChanges queues the VMI of each domain whose state changed, and all VMIs of this node when the hardware of one changed, or changes may have been missed.
func (n *Node) queueChanges(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	go n.Hypervisor.Watch(ctx, func(event hypervisor.Event) {
		if event.Domain != "" {
			if vmi, known := identity.OfDomain(event.Domain); known {
				queue.Add(ctrl.Request{NamespacedName: vmi})
			}
			return
		}
		signal(n.connected)
		n.queueAll(ctx, queue)
	})
	go n.Hypervisor.WatchHardware(ctx, func() { n.queueAll(ctx, queue) })
	return nil
}

func (n *Node) queueAll(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	for _, request := range n.claimed(ctx) {
		queue.Add(request)
	}
}

// claimed returns a request for each VMI of this node.
func (n *Node) claimed(ctx context.Context) (requests []ctrl.Request) {
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

// Reconcile moves one VMI a step further. After a conflict it is tried again: the event of the other change may already have come.
func (n *Node) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vmi := &v1.VirtualMachineInstance{}
	if err := n.Get(ctx, request.NamespacedName, vmi); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !n.holdsLease() {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if !n.Configuration.Synced() {
		// The first boot records the defaults for good.
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if !n.known() {
		return ctrl.Result{RequeueAfter: learnInterval}, n.renderOnly(ctx, vmi)
	}
	result, err := n.step(ctx, vmi)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return result, err
}

// step does the one thing that is next for a VMI. The order is that of precedence: a deleted VMI is stopped whatever its phase, and none is started
// before it has the finalizer, without which it could be gone while its domain runs.
func (n *Node) step(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	switch {
	case vmi.Status.NodeName == "" && vmi.DeletionTimestamp.IsZero() && n.fits(vmi):
		return ctrl.Result{}, n.claim(ctx, vmi)
	case vmi.Status.NodeName != n.Name:
		return ctrl.Result{}, nil
	case !vmi.DeletionTimestamp.IsZero():
		return n.stop(ctx, vmi)
	case controllerutil.AddFinalizer(vmi, v1.VirtualMachineInstanceFinalizer):
		return ctrl.Result{}, n.Update(ctx, vmi) // its answer comes back as the next event
	case vmi.Status.Phase == v1.Scheduled:
		return n.start(ctx, vmi)
	case vmi.Status.Phase == v1.Running:
		return n.watch(ctx, vmi)
	}
	return ctrl.Result{}, nil
}
