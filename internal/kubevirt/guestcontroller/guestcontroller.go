// Package guestcontroller is the part of Kiln's controller for guests that KubeVirt runs. It records their hardware, names the revisions that a VM is pinned to
// in the status of the VM, from which virt-controller takes them, and finds VMs that admission would refuse.
package guestcontroller

import (
	"time"

	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/fairqueue"
	"github.com/kilnvm/kiln/internal/review"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Controller implements lifecycle.KubeVirt.
type Controller struct {
	// Client reads from the cache, which contains no specs, and only the key of annotation kilnvm.io/frontend.
	Client client.Client
	// Live reads from the API server.
	Live   client.Client
	Events events.EventRecorder
	// Namespaces are the namespaces whose guests are recorded; nil for all.
	Namespaces *enforcement.Namespaces
	// Reviewer judges VMs that exist, with the GuestPolicies of the cluster.
	Reviewer review.Reviewer
	Now      func() time.Time

	judge *judge
}

// PoliciesChanged has all VMs judged again. It may be called after Register.
func (c *Controller) PoliciesChanged() { c.judge.judgeAllAgain() }

const (
	// workers is the number of VMIs that are reconciled at the same time.
	workers = 8
	// conflictRetry is the time after which a reconcile with a conflict is repeated.
	conflictRetry = 50 * time.Millisecond
)

// Register adds to a manager the controller that finds VMs that admission would refuse, and the controller that records the hardware of guests.
func (c *Controller) Register(mgr ctrl.Manager) error {
	c.judge = &judge{client: c.Client, live: c.Live, reviewer: c.Reviewer, events: c.Events, now: c.Now, namespaces: c.Namespaces,
		limit:           rate.NewLimiter(judgements, judgements),
		policiesChanged: make(chan event.GenericEvent, 1), seen: map[types.NamespacedName]*seenVM{}}
	if err := c.judge.registerController(mgr); err != nil {
		return err
	}
	guests := ctrl.NewControllerManagedBy(mgr).Named("kubevirthardware").
		For(&v1.VirtualMachineInstance{}).
		Watches(&v1.VirtualMachine{}, &handler.EnqueueRequestForObject{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New})
	if c.Namespaces != nil {
		c.Namespaces.Watch(guests, c.Client)
	}
	return guests.Complete(&hardwareReconciler{client: c.Client, live: c.Live, events: c.Events, namespaces: c.Namespaces})
}
