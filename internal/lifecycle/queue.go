package lifecycle

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/fairqueue"
	"k8s.io/client-go/util/workqueue"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// options are those of the controllers of VMs: namespaces take turns.
var options = controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New}

// vmEvents reconciles the VM of each event. A new VM that has nothing to do but its first status comes after the other VMs of its namespace, so that a guest
// starts before the statuses of hundreds of stopped VMs are written.
type vmEvents struct {
	handler.EnqueueRequestForObject
}

// Create reconciles a new VM.
func (e *vmEvents) Create(ctx context.Context, created event.CreateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	fair, is := queue.(*fairqueue.Queue)
	if vm, ofVM := created.Object.(*v1.VirtualMachine); is && ofVM && isIdle(vm) {
		fair.AddDeferred(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vm)})
		return
	}
	e.EnqueueRequestForObject.Create(ctx, created, queue)
}

// isIdle reports whether a VM needs only its first status: it is halted and pinned, and nobody asks for its start.
func isIdle(vm *v1.VirtualMachine) bool {
	_, pinned := vm.Annotations[v1alpha1.AnnotationPins]
	strategy, err := vm.RunStrategy()
	return err == nil && pinned && strategy == v1.RunStrategyHalted && vm.DeletionTimestamp == nil &&
		vm.Status.PrintableStatus == "" && len(vm.Status.StateChangeRequests) == 0
}
