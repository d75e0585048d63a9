package placement

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/fairqueue"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Register adds the controller to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	byName := &handler.EnqueueRequestForObject{}
	building := ctrl.NewControllerManagedBy(mgr).Named("placement").
		For(&v1.VirtualMachineInstance{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ownerOf)).
		Watches(&v1alpha1.GuestPod{}, byName).
		// Without their content: it is read when a guest starts.
		WatchesMetadata(&v1alpha1.GuestHardware{}, byName).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.onNode), builder.WithPredicates(goesOut)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New})
	if err := c.watchClaims(building, mgr.GetRESTMapper()); err != nil {
		return err
	}
	if c.Clients != nil {
		if err := mgr.Add(c.Clients); err != nil {
			return err
		}
		building.WatchesRawSource(source.Channel(c.Clients.changed, handler.EnqueueRequestsFromMapFunc(c.all)))
	}
	return building.Complete(c)
}

// all returns all VMIs.
func (c *Controller) all(ctx context.Context, _ client.Object) (requests []ctrl.Request) {
	var list v1.VirtualMachineInstanceList
	if err := c.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list VMIs: their launchers do not learn of new authorities of clients until something else happens to them")
	}
	for i := range list.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// ownerOf returns the VMI that controls a pod.
func ownerOf(_ context.Context, object client.Object) []ctrl.Request {
	owner := metav1.GetControllerOf(object)
	if owner == nil || !ofName(object, owner.Name) {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name}}}
}

// goesOut lets through the event by which a node is out of service: the taint, or that it is not Ready any more. Nodes change all the time.
var goesOut = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false }, // each VMI is reconciled at the start
	DeleteFunc: func(event.DeleteEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, _ := e.ObjectOld.(*corev1.Node)
		is, _ := e.ObjectNew.(*corev1.Node)
		return was != nil && is != nil && !outOfService(was) && outOfService(is)
	},
}

// onNode returns the VMIs whose pods are on a node.
func (c *Controller) onNode(ctx context.Context, node client.Object) (requests []ctrl.Request) {
	var pods corev1.PodList
	if err := c.Client.List(ctx, &pods); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list the pods of a node that is out of service", "node", node.GetName())
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node.GetName() {
			requests = append(requests, ownerOf(ctx, &pods.Items[i])...)
		}
	}
	return requests
}
