// Package lifecycle turns VirtualMachines into VirtualMachineInstances: it creates the guest that a run strategy wants,
// hands it its pins, identity and recorded hardware, and removes it when it is to stop. It changes nothing in a guest
// that exists.
package lifecycle

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// Controller reconciles VMs.
type Controller struct {
	// Client reads from informers and writes to the API server.
	Client client.Client
	// Live reads from the API server: what must not be missed because a cache lags behind.
	Live     client.Client
	Resolver resolve.Resolver
	// Configuration returns the configuration in force, to which VMs are pinned. Nil: they are pinned to none.
	Configuration func() config.Cluster
	Events        events.EventRecorder
	Now           func() time.Time

	waiting waiting
}

// workers reconcile at the same time, each another VM. A step is a few calls of the API server one after the other, so
// that with a single worker a boot storm would wait in line for nothing.
const workers = 8

// Register starts the controllers with a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	machines := ctrl.NewControllerManagedBy(mgr).Named("virtualmachine").
		For(&v1.VirtualMachine{}).Owns(&v1.VirtualMachineInstance{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if err := c.watch(machines, mgr.GetRESTMapper()); err != nil {
		return err
	}
	if err := machines.Complete(c); err != nil {
		return err
	}
	records := &hardware{client: c.Client, live: c.Live, events: c.Events, now: c.Now}
	if err := records.register(mgr); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("virtualmachineinstance").
		For(&v1.VirtualMachineInstance{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(&phases{client: c.Client, now: c.Now})
}

// Reconcile brings one VM and its guest one step on. A conflict means that somebody else was faster: their change comes
// in as an event of its own, but it may already have come, so that it is tried again.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := c.reconcile(ctx, request.NamespacedName)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return result, err
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	vmi, err := c.guest(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	vm := &v1.VirtualMachine{}
	if err := c.Client.Get(ctx, key, vm); apierrors.IsNotFound(err) {
		c.waiting.note(key, nil)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if vm.DeletionTimestamp == nil {
		if err := c.introduce(ctx, vm); err != nil {
			return ctrl.Result{}, err
		}
	}
	state := observe(vm, vmi, c.Now())
	if vm.DeletionTimestamp == nil {
		c.pin(ctx, &state)
		c.act(ctx, &state)
	}
	if err := c.report(ctx, &state); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: state.again}, state.retry
}

// guest is the VMI of a name, or nil.
func (c *Controller) guest(ctx context.Context, key types.NamespacedName) (*v1.VirtualMachineInstance, error) {
	vmi := &v1.VirtualMachineInstance{}
	if err := c.Client.Get(ctx, key, vmi); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return vmi, nil
}

// write stores snapshots through the API server itself.
func (c *Controller) write(ctx context.Context, drafts ...revision.Draft) error {
	return revision.Write(ctx, c.Live, drafts...)
}
