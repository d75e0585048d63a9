// Package guestprofile writes the status of GuestProfiles and ClusterGuestProfiles: whether new VMIs that they select are admitted, with whom they
// disagree, and how many VMs they select.
package guestprofile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/profile"
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
)

// Controller writes the statuses. Nothing reads them: admission judges by the profiles themselves.
type Controller struct {
	Client client.Client
	// Cached has the profiles untyped, and VMs, VMIs and the metadata of namespaces.
	Cached client.Reader
	// Configuration returns the configuration that profiles are judged by.
	Configuration func() config.Cluster
}

// pause is the time from the first change of anything to the next run. A run lists all VMs once, whatever has changed meanwhile.
const pause = 5 * time.Second

// refresh is the time after which all profiles are judged again: feature gates change without an event here.
const refresh = 10 * time.Minute

// all is the only request: a change of one profile may begin or end conflicts of many others.
var all = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}

// Register adds the controller to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	build := ctrl.NewControllerManagedBy(mgr).Named("guestprofile")
	changed := builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))
	for _, kind := range kinds {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		build = build.Watches(object, later(), changed)
	}
	return build.Watches(&v1.VirtualMachine{}, later(), changed).Watches(&v1.VirtualMachineInstance{}, later(), changed).
		WatchesMetadata(&corev1.Namespace{}, later(), changed).Complete(c)
}

// later asks for a run after the pause. The queue keeps one request, however many events there are: the events of 8,000 VMs cost a lookup each.
func later() handler.EventHandler {
	add := func(queue workqueue.TypedRateLimitingInterface[reconcile.Request]) { queue.AddAfter(all, pause) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(q)
		},
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(q)
		},
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(q)
		},
	}
}

// Reconcile judges all profiles and counts what they select.
func (c *Controller) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	found, err := c.read(ctx)
	if err != nil || len(found) == 0 {
		return ctrl.Result{}, err
	}
	if err := c.count(ctx, found); err != nil {
		return ctrl.Result{}, err
	}
	namespaces, err := c.namespaces(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	conflicts, complete := profile.Conflicts(readable(found), func(name string) map[string]string { return namespaces[name] })
	cluster := c.Configuration()
	var errs []error
	for _, one := range found {
		one.status.Conditions = []metav1.Condition{one.accepted(found, cluster), one.conflicting(conflicts, complete)}
		errs = append(errs, c.write(ctx, one))
	}
	return ctrl.Result{RequeueAfter: refresh}, errors.Join(errs...)
}

// write patches a status that differs.
func (c *Controller) write(ctx context.Context, one *judged) error {
	now := one.object.DeepCopyObject().(client.Object)
	status := statusOf(now)
	status.Selected = one.status.Selected
	for _, judgement := range one.status.Conditions {
		meta.SetStatusCondition(&status.Conditions, judgement)
	}
	if err := condition.Write(ctx, c.Client, one.object, now); err != nil {
		return fmt.Errorf("status of %s '%s': %w", one.kind, client.ObjectKeyFromObject(one.object), err)
	}
	return nil
}

// statusOf returns the status in an object of one of both kinds.
func statusOf(object client.Object) *v1alpha1.GuestProfileStatus {
	if cluster, is := object.(*v1alpha1.ClusterGuestProfile); is {
		return &cluster.Status
	}
	return &object.(*v1alpha1.GuestProfile).Status
}
