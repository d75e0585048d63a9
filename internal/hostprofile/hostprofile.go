// Package hostprofile tells in the status of each HostProfile whether hosts take notice of it.
package hostprofile

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Controller writes the condition Accepted. The API server refuses selectors that cannot be read, so that it finds only those that were
// stored before it did. Launchers do not read the condition: they judge each profile in the same way.
type Controller struct{ Client client.Client }

// Register starts the controller with a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("hostprofile").For(&v1alpha1.HostProfile{}).Complete(c)
}

// Reconcile judges one profile.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	profile := &v1alpha1.HostProfile{}
	if err := c.Client.Get(ctx, request.NamespacedName, profile); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	judged := profile.DeepCopy()
	meta.SetStatusCondition(&judged.Status.Conditions, accepted(profile))
	if equality.Semantic.DeepEqual(profile.Status, judged.Status) {
		return ctrl.Result{}, nil
	}
	err := c.Client.Status().Patch(ctx, judged, client.MergeFromWithOptions(profile, client.MergeFromWithOptimisticLock{}))
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// longest is what the API server takes as the message of a condition, in characters.
const longest = 32768

func accepted(profile *v1alpha1.HostProfile) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, ObservedGeneration: profile.Generation,
	}
	if mistakes := backend.Unreadable(&profile.Spec, field.NewPath("spec")); len(mistakes) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonInvalidSelector
		condition.Message = fmt.Sprintf("%.*s", longest, "hosts leave this profile out: "+mistakes.ToAggregate().Error())
	}
	return condition
}
