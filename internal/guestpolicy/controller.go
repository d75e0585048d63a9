package guestpolicy

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/policy"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Controller writes the condition Accepted into the status of GuestPolicies. Admission refuses a policy that does not compile, so Accepted is False only for
// policies that were stored while no webhook ran, or by another release of Kiln. Reviews do not read the condition.
type Controller struct{ Client client.Client }

// Register adds the controller to a manager. A write of the status does not change the generation, and so causes no event.
func (c *Controller) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("guestpolicy").
		For(&v1alpha1.GuestPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).Complete(c)
}

// Reconcile compiles one policy.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var stored v1alpha1.GuestPolicy
	if err := c.Client.Get(ctx, request.NamespacedName, &stored); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	judged := stored.DeepCopy()
	meta.SetStatusCondition(&judged.Status.Conditions, acceptedCondition(&stored))
	return ctrl.Result{}, condition.Write(ctx, c.Client, &stored, judged)
}

// acceptedCondition returns the condition Accepted of a policy.
func acceptedCondition(of *v1alpha1.GuestPolicy) metav1.Condition {
	judgement := metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, ObservedGeneration: of.Generation,
	}
	if _, mistakes := policy.Compile(of); len(mistakes) > 0 {
		judgement.Status, judgement.Reason = metav1.ConditionFalse, v1alpha1.ReasonNotCompiled
		judgement.Message = condition.WholeMessage("failurePolicy decides about every object that this policy matches: " + mistakes.ToAggregate().Error())
	}
	return judgement
}
