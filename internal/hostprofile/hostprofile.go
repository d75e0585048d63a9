// Package hostprofile writes the conditions Accepted, Conflicting and Served into the status of HostProfiles.
package hostprofile

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Controller writes the conditions. The API server refuses invalid fields, so Accepted is False only for profiles that were stored before it did. Launchers
// do not read the conditions: they judge profiles by the same functions.
type Controller struct {
	Client client.Client
	// Pods means that guests run in pods, whose libvirt has no rights on the node. Then the condition Served names the fields that have no effect.
	Pods bool
}

// Register adds the controller to a manager. All events map to one request, which the work queue deduplicates, because profiles are few and judged together.
func (c *Controller) Register(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("hostprofile").Watches(&v1alpha1.HostProfile{}, all).Complete(c)
}

// Reconcile judges all profiles, because a change of one profile may begin or end conflicts of many others.
func (c *Controller) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var list v1alpha1.HostProfileList
	if err := c.Client.List(ctx, &list); err != nil {
		return ctrl.Result{}, err
	}
	conflicts, complete := backend.Conflicts(list.Items)
	var errs []error
	for i := range list.Items {
		profile := &list.Items[i]
		conditions := []metav1.Condition{acceptedCondition(profile), conflictingCondition(profile, conflicts[profile.Name], complete)}
		if c.Pods {
			conditions = append(conditions, servedCondition(profile))
		}
		errs = append(errs, c.writeConditions(ctx, profile, conditions...))
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// writeConditions patches the status if a condition has changed. If guests do not run in pods, it removes the condition Served, which a controller with pods
// may have written.
func (c *Controller) writeConditions(ctx context.Context, profile *v1alpha1.HostProfile, conditions ...metav1.Condition) error {
	judged := profile.DeepCopy()
	if !c.Pods {
		meta.RemoveStatusCondition(&judged.Status.Conditions, v1alpha1.ConditionServed)
	}
	for _, judgement := range conditions {
		meta.SetStatusCondition(&judged.Status.Conditions, judgement)
	}
	return condition.Write(ctx, c.Client, profile, judged)
}

// acceptedCondition returns the condition Accepted. It is False with reason InvalidSelector if launchers ignore the whole profile, and with reason
// InvalidField if they ignore single fields.
func acceptedCondition(profile *v1alpha1.HostProfile) metav1.Condition {
	accepted := metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, ObservedGeneration: profile.Generation,
	}
	spec := field.NewPath("spec")
	if mistakes := backend.InvalidSelectors(&profile.Spec, spec); len(mistakes) > 0 {
		accepted.Status, accepted.Reason = metav1.ConditionFalse, v1alpha1.ReasonInvalidSelector
		accepted.Message = condition.WholeMessage("launchers ignore this profile: " + mistakes.ToAggregate().Error())
	} else if mistakes := backend.InvalidFields(&profile.Spec, spec); len(mistakes) > 0 {
		accepted.Status, accepted.Reason = metav1.ConditionFalse, v1alpha1.ReasonInvalidField
		accepted.Message = condition.WholeMessage("launchers ignore these fields or refuse VMIs that need them: " + mistakes.ToAggregate().Error())
	}
	return accepted
}

// servedCondition returns the condition Served, which names the fields that have no effect in a pod. The number of the API's fields bounds the message.
func servedCondition(profile *v1alpha1.HostProfile) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionServed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonServed, ObservedGeneration: profile.Generation,
	}
	if _, left := backend.InSession(profile.Spec.HostPolicy); len(left) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonNotServedInPods
		condition.Message = "guests in pods start without these fields, which need rights on the node; use requests and limits of the VMI, " +
			"kubelet's settings and the cluster's network instead: spec." + strings.Join(left, ", spec.")
	}
	return condition
}

// conflictingCondition returns the condition Conflicting, which names the conflicting profiles and fields. backend.Conflicts bounds the message: ten names of
// 253 characters.
func conflictingCondition(profile *v1alpha1.HostProfile, conflicts []backend.Conflict, complete bool) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionConflicting, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoConflict, ObservedGeneration: profile.Generation,
	}
	var others []string
	for _, c := range conflicts {
		others = append(others, fmt.Sprintf("'%s' (%s)", c.Profile, strings.Join(c.Fields, ", ")))
	}
	switch {
	case len(others) > 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonFieldsDiffer
		condition.Message = fmt.Sprintf("VMIs that match this profile and one of the following do not start, because both have priority %d and differ: %s",
			profile.Spec.Priority, strings.Join(others, ", "))
	case !complete:
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonTooManyProfiles
		condition.Message = "too many profiles have this priority to compare each with all others"
	}
	return condition
}

// All returns all HostProfiles of a cluster; nil if the cluster does not serve the kind.
func All(ctx context.Context, reader client.Reader) ([]v1alpha1.HostProfile, error) {
	var list v1alpha1.HostProfileList
	if err := reader.List(ctx, &list); err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	return list.Items, nil
}
