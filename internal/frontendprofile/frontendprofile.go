// Package frontendprofile writes the condition InForce into the status of FrontendProfiles.
package frontendprofile

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Controller writes the condition, for people: nothing reads it. Webhook and controller compute the version in force from the profiles themselves.
type Controller struct{ Client client.Client }

// Register adds the controller to a manager. All events map to one request: a new profile changes the condition of the one before it.
func (c *Controller) Register(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("frontendprofile").Watches(&v1alpha1.FrontendProfile{}, all).Complete(c)
}

// Reconcile judges all profiles, whatever the request.
func (c *Controller) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	profiles, err := clusterconfig.FrontendProfiles(ctx, c.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	highest := config.FrontendInForce(profiles)
	var errs []error
	for i := range profiles {
		errs = append(errs, c.write(ctx, &profiles[i], inForce(&profiles[i], highest)))
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// write patches the status if the condition differs.
func (c *Controller) write(ctx context.Context, profile *v1alpha1.FrontendProfile, judgement metav1.Condition) error {
	judged := profile.DeepCopy()
	meta.SetStatusCondition(&judged.Status.Conditions, judgement)
	return condition.Write(ctx, c.Client, profile, judged)
}

// inForce returns the condition of a profile; highest is the one in force, or nil.
func inForce(profile, highest *v1alpha1.FrontendProfile) metav1.Condition {
	judgement := metav1.Condition{
		Type: v1alpha1.ConditionInForce, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalid, ObservedGeneration: profile.Generation,
	}
	mistakes := config.InvalidFrontend(&profile.Spec, field.NewPath("spec"))
	if err := config.InvalidFrontendName(profile.Name, field.NewPath("metadata", "name")); err != nil {
		mistakes = append(mistakes, err)
	}
	switch {
	case len(mistakes) > 0: // stored before the API server had this schema
		judgement.Message = condition.Message("no VM gets this version: " + mistakes.ToAggregate().Error())
	case highest != nil && highest.Name == profile.Name:
		judgement.Status, judgement.Reason = metav1.ConditionTrue, v1alpha1.ReasonHighestVersion
		judgement.Message = "VMs that are created now are pinned to this version"
	default:
		judgement.Reason = v1alpha1.ReasonNewerVersion
		judgement.Message = fmt.Sprintf("version '%s' is in force; VMs that are pinned to this version keep it", highest.Name)
	}
	return judgement
}
