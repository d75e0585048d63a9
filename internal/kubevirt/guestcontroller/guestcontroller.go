// Package guestcontroller is the part of Kiln's controller for guests that KubeVirt runs. It records their hardware, and names the revisions that a VM is
// pinned to in the status of the VM, from which virt-controller takes them.
package guestcontroller

import (
	"time"

	"github.com/kilnvm/kiln/internal/fairqueue"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Controller implements lifecycle.KubeVirt.
type Controller struct {
	// Client reads from the cache, which contains no specs, and only the key of annotation kilnvm.io/frontend.
	Client client.Client
	// Live reads from the API server.
	Live   client.Client
	Events events.EventRecorder
}

const (
	// workers is the number of VMIs that are reconciled at the same time.
	workers = 8
	// conflictRetry is the time after which a reconcile with a conflict is repeated.
	conflictRetry = 50 * time.Millisecond
)

// Register adds the controller that records the hardware of guests to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("kubevirthardware").
		For(&v1.VirtualMachineInstance{}).
		Watches(&v1.VirtualMachine{}, &handler.EnqueueRequestForObject{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New}).
		Complete(&hardwareReconciler{client: c.Client, live: c.Live, events: c.Events})
}
