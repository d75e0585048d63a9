// Package guestprofile writes the status of GuestProfiles and ClusterGuestProfiles: whether new VMIs that they select are admitted, which other profiles
// conflict with them, how many VMs they select, and which CPU their nodes have in common.
package guestprofile

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Controller writes the status of profiles. status.commonCPU fills new VMs. Only users read the rest: admission judges the profiles themselves. A request is a
// namespace, whose GuestProfiles are judged together with the ClusterGuestProfiles. So only the profiles of one namespace at a time are decoded, and an edit
// costs only its own namespace. The empty namespace stands for the ClusterGuestProfiles. The share of a namespace in their status is kept when the namespace is
// judged.
type Controller struct {
	Client client.Client
	// Cached reads untyped profiles, VMs, VMIs and the metadata of namespaces.
	Cached client.Reader
	// Configuration returns the configuration that profiles are judged by. It decides by which labels of nodes spec.commonCPU finds a CPU.
	Configuration func() config.Cluster
	Now           func() time.Time

	memo   memo
	shares map[string]share
	// shared gets an event when the share of a namespace or a node has changed; nil in tests.
	shared chan event.GenericEvent
	// common are the CPUs that were found, by the UID of the profile.
	common map[types.UID]commonCPU
	// follow watches nodes; nil in tests, and when it has been called. followed reports the latter. nodes counts the changes of nodes then.
	follow   func(context.Context) error
	followed bool
	nodes    atomic.Int64
}

// share is the part of the status of ClusterGuestProfiles that one namespace contributes.
type share struct {
	// selected is the number of VMs of the namespace that a ClusterGuestProfile selects, by its name. conflicts are the messages about its conflicts with
	// GuestProfiles.
	selected  map[string]int32
	conflicts map[string][]string
	// complete reports that all profiles of the namespace were compared.
	complete bool
}

// pause is the time from the first change in a namespace to its judgement, which lists the VMs of the namespace once for all changes meanwhile.
const pause = 5 * time.Second

// refresh is the time after which profiles are judged again, because feature gates change without an event here.
const refresh = 10 * time.Minute

// ofCluster is the request for the ClusterGuestProfiles.
var ofCluster = requestFor("")

func requestFor(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "profiles"}}
}

// Register adds the controller to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	build := ctrl.NewControllerManagedBy(mgr).Named("guestprofile")
	changed := builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))
	for kind, enqueue := range map[string]handler.EventHandler{
		v1alpha1.KindGuestProfile: enqueueOwnNamespace(), v1alpha1.KindClusterGuestProfile: c.enqueueAllNamespaces(),
	} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		build = build.Watches(object, enqueue, changed)
	}
	c.shared = make(chan event.GenericEvent, 1)
	c.follow = func(ctx context.Context) error { return c.followNodes(ctx, mgr) }
	again := handler.Funcs{GenericFunc: func(_ context.Context, _ event.GenericEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		q.AddAfter(ofCluster, pause)
	}}
	return build.Watches(&v1.VirtualMachine{}, enqueueOwnNamespace(), changed).Watches(&v1.VirtualMachineInstance{}, enqueueOwnNamespace(), changed).
		WatchesMetadata(&corev1.Namespace{}, enqueueNamespace(), changed).WatchesRawSource(source.Channel(c.shared, again)).Complete(c)
}

// enqueueLater returns a handler that queues the namespaces of an event after the pause. The queue keeps one request for each namespace, however many events
// there are.
func enqueueLater(of func(context.Context, client.Object) []string) handler.EventHandler {
	add := func(ctx context.Context, object client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, namespace := range of(ctx, object) {
			queue.AddAfter(requestFor(namespace), pause)
		}
	}
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requests) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) { add(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requests) { add(ctx, e.Object, q) },
	}
}

// enqueueOwnNamespace returns a handler that queues the namespace of the object.
func enqueueOwnNamespace() handler.EventHandler {
	return enqueueLater(func(_ context.Context, object client.Object) []string { return []string{object.GetNamespace()} })
}

// enqueueNamespace returns a handler that queues the namespace that is the object.
func enqueueNamespace() handler.EventHandler {
	return enqueueLater(func(_ context.Context, object client.Object) []string { return []string{object.GetName()} })
}

// enqueueAllNamespaces returns a handler that queues all namespaces, because a ClusterGuestProfile may select VMs in each.
func (c *Controller) enqueueAllNamespaces() handler.EventHandler {
	return enqueueLater(func(ctx context.Context, _ client.Object) []string {
		all, err := c.listNamespaces(ctx)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "the namespaces of a ClusterGuestProfile are judged later")
		}
		return append(all, "")
	})
}

// listNamespaces returns the names of all namespaces.
func (c *Controller) listNamespaces(ctx context.Context) (all []string, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := c.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	for i := range list.Items {
		all = append(all, list.Items[i].Name)
	}
	return all, nil
}

// Reconcile judges the profiles of a namespace, and counts the VMs that they select. One request is reconciled at a time.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	namespace := request.Namespace
	shared, err := c.listProfiles(ctx, v1alpha1.KindClusterGuestProfile, "")
	if err != nil {
		return ctrl.Result{}, err
	}
	if namespace == "" {
		return c.judgeShared(ctx, shared)
	}
	own, err := c.listProfiles(ctx, v1alpha1.KindGuestProfile, namespace)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case len(own)+len(shared) == 0:
		c.noteShare(namespace, share{complete: true})
		return ctrl.Result{}, nil
	}
	if err := c.judgeOwn(ctx, namespace, own, shared); err != nil || len(own) == 0 {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: refresh}, nil
}

// writeStatus patches the status of a profile if it has changed.
func (c *Controller) writeStatus(ctx context.Context, one *judged) error {
	now := one.object.DeepCopyObject().(client.Object)
	status := statusOf(now)
	status.Selected = one.status.Selected
	for _, judgement := range one.status.Conditions {
		meta.SetStatusCondition(&status.Conditions, judgement)
	}
	if cluster, is := now.(*v1alpha1.ClusterGuestProfile); is {
		cluster.Status.CommonCPU = one.newCPU
		if one.newCPU == nil {
			meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionCommonCPU)
		}
	}
	if err := condition.Write(ctx, c.Client, one.object, now); err != nil {
		return fmt.Errorf("status of %s '%s': %w", one.kind, client.ObjectKeyFromObject(one.object), err)
	}
	return nil
}

// statusOf returns the status of a GuestProfile or ClusterGuestProfile.
func statusOf(object client.Object) *v1alpha1.GuestProfileStatus {
	if cluster, is := object.(*v1alpha1.ClusterGuestProfile); is {
		return &cluster.Status.GuestProfileStatus
	}
	return &object.(*v1alpha1.GuestProfile).Status
}
