package vmipod

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/fairqueue"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
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
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ownerVMI)).
		Watches(&v1alpha1.GuestPod{}, byName).
		// Only metadata: the content is read when a guest starts.
		WatchesMetadata(&v1alpha1.GuestHardware{}, byName).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.vmisOnNode), builder.WithPredicates(becomesOutOfService)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New})
	c.watchAdmissionLimits(building)
	if err := c.watchAwaited(building, mgr.GetRESTMapper()); err != nil {
		return err
	}
	found := make(chan event.GenericEvent)
	building.WatchesRawSource(source.Channel(found, byName))
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return c.lookUpAwaited(ctx, found) })); err != nil {
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
		building.WatchesRawSource(source.Channel(c.Clients.changed, handler.EnqueueRequestsFromMapFunc(c.allVMIs)))
	}
	return building.Complete(c)
}

// watchAdmissionLimits makes the controller try soon to create the pods that the API server has refused, when a quota gets room, a LimitRange changes, or the
// labels of a namespace change, which choose the level of Pod Security.
func (c *Controller) watchAdmissionLimits(building *builder.Builder) {
	inNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []ctrl.Request {
		return c.retryRefused(object.GetNamespace())
	})
	ofNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, namespace client.Object) []ctrl.Request {
		return c.retryRefused(namespace.GetName())
	})
	building.Watches(&corev1.ResourceQuota{}, inNamespace, builder.WithPredicates(lifecycle.QuotaFreed)).
		Watches(&corev1.LimitRange{}, inNamespace, builder.WithPredicates(notCreated)). // a new LimitRange permits nothing more
		Watches(&corev1.Namespace{}, ofNamespace, builder.WithPredicates(notCreated, predicate.LabelChangedPredicate{}))
}

// notCreated ignores the creation of objects.
var notCreated = predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}

// retryRefused returns VMIs of a namespace whose pods the API server has refused, after it has made them due soon.
func (c *Controller) retryRefused(namespace string) (requests []ctrl.Request) {
	for _, vmi := range c.refused.longestRefused(namespace, v1alpha1.ReasonFailedCreate, lifecycle.MaxRetriedVMs) {
		c.refused.retrySoon(vmi)
		requests = append(requests, ctrl.Request{NamespacedName: vmi})
	}
	return requests
}

// allVMIs returns all VMIs.
func (c *Controller) allVMIs(ctx context.Context, _ client.Object) (requests []ctrl.Request) {
	var list v1.VirtualMachineInstanceList
	if err := c.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list VMIs: their launchers get the new certificate authorities of clients only with their next event")
	}
	for i := range list.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// ownerVMI returns the VMI that controls a pod.
func ownerVMI(_ context.Context, object client.Object) []ctrl.Request {
	owner := metav1.GetControllerOf(object)
	if owner == nil || !observed.IsOwnedByName(object, owner.Name) {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name}}}
}

// becomesOutOfService accepts only the event by which a node becomes out of service: the taint, or the end of Ready. Nodes change all the time.
var becomesOutOfService = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false }, // each VMI is reconciled at the start
	DeleteFunc: func(event.DeleteEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, _ := e.ObjectOld.(*corev1.Node)
		is, _ := e.ObjectNew.(*corev1.Node)
		return was != nil && is != nil && !observed.OutOfService(was) && observed.OutOfService(is)
	},
}

// vmisOnNode returns the VMIs whose pods are on a node.
func (c *Controller) vmisOnNode(ctx context.Context, node client.Object) (requests []ctrl.Request) {
	var pods corev1.PodList
	if err := c.Client.List(ctx, &pods); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list the pods of a node that is out of service", "node", node.GetName())
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node.GetName() {
			requests = append(requests, ownerVMI(ctx, &pods.Items[i])...)
		}
	}
	return requests
}

// retryWaiting returns the VMIs that wait for an object, after it has made them due soon.
func (c *Controller) retryWaiting(object awaitedObject) (requests []ctrl.Request) {
	for _, vmi := range c.awaited.waitingFor(object) {
		c.refused.retrySoon(vmi)
		requests = append(requests, ctrl.Request{NamespacedName: vmi})
	}
	return requests
}

// watchAwaited makes the controller reconcile the VMIs that wait for a claim when the claim or its DataVolume changes, which has the same name, and the VMIs
// that wait for a NetworkAttachmentDefinition. A cluster without CDI or Multus does not serve their kinds.
func (c *Controller) watchAwaited(building *builder.Builder, mapper meta.RESTMapper) error {
	kinds, err := lifecycle.ServedKinds(mapper, corev1.SchemeGroupVersion.WithKind(kindClaim), cdi.SchemeGroupVersion.WithKind("DataVolume"),
		podinput.NetworkAttachmentDefinition)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		awaited := kindClaim
		if kind.Kind == kindNetwork {
			awaited = kindNetwork
		}
		c.awaited.markWatched(awaited)
		building.WatchesMetadata(object, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
			return c.retryWaiting(awaitedObject{awaited, client.ObjectKeyFromObject(o)})
		}))
	}
	return nil
}

// lookupsPerSecond bounds the objects that are looked up. If more are awaited, they take turns.
const lookupsPerSecond = 20

// lookUpAwaited looks up objects that are not watched each second, and sends the VMIs whose objects exist. It returns when the context ends.
func (c *Controller) lookUpAwaited(ctx context.Context, found chan<- event.GenericEvent) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, object := range c.awaited.nextUnwatched(lookupsPerSecond) {
			if exists, err := c.lookup.objectExists(ctx, object); err != nil || !exists {
				continue // the next try of the VMI reports the error
			}
			for _, request := range c.retryWaiting(object) {
				vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
				select {
				case found <- event.GenericEvent{Object: vmi}:
				case <-ctx.Done():
					return
				}
			}
		}
	}, time.Second)
	return nil
}
