// Package node runs the VMIs of one machine: it claims them in the cluster, follows their domains, and reports phases, conditions and events.
package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/internal/bind"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Node runs the VMIs of one machine. It claims an unassigned VMI by a status update with its resource version, so that of
// two nodes one loses, and writes only VMIs that it claimed.
type Node struct {
	client.Client
	// Live reads past the cache.
	Live client.Reader
	// Events tell the owners of VMIs how their guests ended.
	Events events.EventRecorder
	// Cluster tells this cluster from others. A launcher that is pointed at another cluster by mistake ends no domain of the right one.
	Cluster types.UID
	Name    string
	Labels  map[string]string
	KVM     hypervisor.KVM
	Libvirt *hypervisor.Libvirt
	// Assumed are the facts of this machine until libvirt has told its own.
	Assumed backend.Capabilities
	Machine *bind.BareMachine
	// Configuration is the cluster's: it says what new guests see that no field of the API governs.
	Configuration *clusterconfig.Watcher
	// Lease is that of the name; nil for a node that is alone by other means.
	Lease *Lease

	cpus    promised
	learned atomic.Pointer[backend.Capabilities]
	leaving leaving
	// inTheWay wakes who ends strays.
	inTheWay chan struct{}
}

// workers reconcile at the same time, each another VMI: a guest whose image hangs must not keep others from being watched and
// stopped.
const workers = 8

// SetupWithManager lets the manager call the node for each VMI, and look after the machine.
func (n *Node) SetupWithManager(mgr ctrl.Manager) error {
	n.inTheWay = make(chan struct{}, 1)
	err := ctrl.NewControllerManagedBy(mgr).For(&v1.VirtualMachineInstance{}).Named("launcher").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(n)
	for _, work := range []manager.RunnableFunc{n.study, n.clear, n.Libvirt.Listen} {
		err = errors.Join(err, mgr.Add(work))
	}
	return err
}

// Reconcile moves one VMI a step further. A conflict means that somebody else was faster: their change comes in as an event of
// its own, but it may already have come, so that it is tried again.
func (n *Node) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vmi := &v1.VirtualMachineInstance{}
	if err := n.Get(ctx, request.NamespacedName, vmi); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !n.acts() {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if !n.Configuration.Synced() {
		// What the first boot freezes must not be the defaults of a moment.
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

// renderOnly leaves the documents of a VMI that this machine could run, for a look at them.
func (n *Node) renderOnly(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	if !n.fits(vmi) {
		return nil
	}
	changed, err := n.writeDocument(ctx, vmi)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("cannot be rendered", "reason", err.Error())
		return nil
	}
	if !changed {
		return nil // it has been told
	}
	ctrl.LoggerFrom(ctx).Info("rendered, not started: libvirt is not reachable", "folder", n.Machine.Folder(vmi))
	return nil
}

// fits tells whether this machine may run the VMI.
func (n *Node) fits(vmi *v1.VirtualMachineInstance) bool {
	if vmi.Status.Phase != v1.VmPhaseUnset && vmi.Status.Phase != v1.Pending {
		return false
	}
	if n.facts().Emulators[vmi.Spec.Architecture] == "" {
		return false
	}
	return labels.SelectorFromSet(vmi.Spec.NodeSelector).Matches(labels.Set(n.Labels))
}

func (n *Node) claim(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	vmi.Status.NodeName = n.Name
	setPhase(vmi, v1.Scheduled)
	return client.IgnoreNotFound(ignoreConflict(n.Status().Update(ctx, vmi)))
}
