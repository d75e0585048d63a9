package vmipod

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/fairqueue"
	"github.com/kilnvm/kiln/internal/lifecycle"
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
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Register adds the controller to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	byName := &handler.EnqueueRequestForObject{}
	building := ctrl.NewControllerManagedBy(mgr).Named("vmipod").
		For(&v1.VirtualMachineInstance{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ownerOf)).
		Watches(&v1alpha1.GuestPod{}, byName).
		// Without their content: it is read when a guest starts.
		WatchesMetadata(&v1alpha1.GuestHardware{}, byName).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.onNode), builder.WithPredicates(goesOut)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New})
	c.watchRoom(building)
	if err := c.watchAwaited(building, mgr.GetRESTMapper()); err != nil {
		return err
	}
	come := make(chan event.GenericEvent)
	building.WatchesRawSource(source.Channel(come, byName))
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return c.lookForAwaited(ctx, come) })); err != nil {
		return err
	}
	retried, err := c.outages.Source(mgr, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, vmi client.Object) []ctrl.Request {
		c.refused.retrySoon(client.ObjectKeyFromObject(vmi))
		return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(vmi)}}
	}))
	if err != nil {
		return err
	}
	building.WatchesRawSource(retried)
	if c.Clients != nil {
		if err := mgr.Add(c.Clients); err != nil {
			return err
		}
		building.WatchesRawSource(source.Channel(c.Clients.changed, handler.EnqueueRequestsFromMapFunc(c.all)))
	}
	return building.Complete(c)
}

// watchRoom makes the controller try again soon to create the pods that the API server has refused, when a quota gets room, a LimitRange changes, or the
// labels of a namespace do, which choose the level of Pod Security.
func (c *Controller) watchRoom(building *builder.Builder) {
	inNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []ctrl.Request {
		return c.retryRefused(object.GetNamespace())
	})
	ofNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, namespace client.Object) []ctrl.Request {
		return c.retryRefused(namespace.GetName())
	})
	building.Watches(&corev1.ResourceQuota{}, inNamespace, builder.WithPredicates(lifecycle.GivesRoom)).
		Watches(&corev1.LimitRange{}, inNamespace, builder.WithPredicates(notNew)). // a new one permits nothing more
		Watches(&corev1.Namespace{}, ofNamespace, builder.WithPredicates(notNew, predicate.LabelChangedPredicate{}))
}

// notNew leaves out the creation of objects.
var notNew = predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}

// retryRefused returns VMIs of a namespace whose pods the API server has refused. They are tried again soon.
func (c *Controller) retryRefused(namespace string) (requests []ctrl.Request) {
	for _, vmi := range c.refused.longestRefused(namespace, v1alpha1.ReasonFailedCreate, lifecycle.MostRetried) {
		c.refused.retrySoon(vmi)
		requests = append(requests, ctrl.Request{NamespacedName: vmi})
	}
	return requests
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
