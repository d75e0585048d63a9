package guestpolicy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/policy"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// ExceptionController writes the conditions InForce and Expiring into the status of GuestPolicyExceptions. Reviews do not read the conditions, and nothing is
// deleted: a wrong clock of this process takes no exception away.
type ExceptionController struct {
	Client client.Client
	Events events.EventRecorder
	// Now returns the current time; nil for the clock of this machine.
	Now func() time.Time
}

// expiresSoon is the time before the end of an exception in which condition Expiring is True.
const expiresSoon = 24 * time.Hour

// Register adds the controller to a manager.
func (c *ExceptionController) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("guestpolicyexception").
		For(&v1alpha1.GuestPolicyException{}).
		Watches(&v1alpha1.GuestPolicy{}, handler.EnqueueRequestsFromMapFunc(c.exceptionsOfPolicy)).
		Complete(c)
}

// exceptionsOfPolicy returns the exceptions that name a policy.
func (c *ExceptionController) exceptionsOfPolicy(ctx context.Context, of client.Object) (requests []ctrl.Request) {
	var all v1alpha1.GuestPolicyExceptionList
	if err := c.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing GuestPolicyExceptions")
	}
	for i := range all.Items {
		if slices.ContainsFunc(all.Items[i].Spec.Policies, func(named v1alpha1.GuestPolicyExceptionPolicy) bool { return named.Name == of.GetName() }) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return requests
}

// Reconcile writes the conditions of one exception, and returns when they change by time.
func (c *ExceptionController) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	stored, err := objects.GetOrNil(ctx, c.Client, request.NamespacedName, &v1alpha1.GuestPolicyException{})
	if err != nil || stored == nil || stored.DeletionTimestamp != nil {
		return ctrl.Result{}, err
	}
	state, err := c.stateOf(ctx, stored)
	if err != nil {
		return ctrl.Result{}, err
	}
	judged := stored.DeepCopy()
	left := stored.Spec.Expires.Sub(c.now())
	meta.SetStatusCondition(&judged.Status.Conditions, inForceCondition(stored, state))
	expiring := expiringCondition(stored, state.InForce() && left <= expiresSoon)
	warn := expiring.Status == metav1.ConditionTrue && !meta.IsStatusConditionTrue(stored.Status.Conditions, v1alpha1.ConditionExpiring)
	meta.SetStatusCondition(&judged.Status.Conditions, expiring)
	switch err := condition.Write(ctx, c.Client, stored, judged); {
	case apierrors.IsConflict(err): // the event of the other write follows
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	if warn {
		c.Events.Eventf(stored, nil, corev1.EventTypeWarning, v1alpha1.ReasonExpiresSoon, "Reconcile", "%s", expiring.Message)
	}
	switch {
	case left > expiresSoon:
		return ctrl.Result{RequeueAfter: min(left-expiresSoon, longestSleep)}, nil
	case left > 0:
		return ctrl.Result{RequeueAfter: min(left, longestSleep)}, nil
	}
	return ctrl.Result{}, nil
}

// longestSleep is the longest time between two looks at the clock, which somebody may set.
const longestSleep = time.Hour

// stateOf returns the state of an exception for all its policies: the first one that has no effect.
func (c *ExceptionController) stateOf(ctx context.Context, of *v1alpha1.GuestPolicyException) (state policy.ExceptionState, err error) {
	now := c.now()
	for _, named := range of.Spec.Policies {
		stored, err := objects.GetOrNil(ctx, c.Client, client.ObjectKey{Name: named.Name}, &v1alpha1.GuestPolicy{})
		if err != nil {
			return state, err
		}
		if stored == nil {
			return policy.ExceptionState{Reason: v1alpha1.ReasonNoSuchPolicy, Message: fmt.Sprintf("there is no GuestPolicy '%s'", named.Name)}, nil
		}
		if state = policy.StateByPolicy(stored, of, now); !state.InForce() {
			return state, nil
		}
	}
	return state, nil
}

func (c *ExceptionController) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// inForceCondition returns the condition InForce of an exception.
func inForceCondition(of *v1alpha1.GuestPolicyException, state policy.ExceptionState) metav1.Condition {
	judged := metav1.Condition{Type: v1alpha1.ConditionInForce, Status: metav1.ConditionFalse, Reason: state.Reason, ObservedGeneration: of.Generation}
	if state.InForce() {
		judged.Status = metav1.ConditionTrue
	}
	judged.Message = condition.Message(cmp.Or(state.Message, "until "+policy.FormatExpiry(of.Spec.Expires.Time)))
	return judged
}

// expiringCondition returns the condition Expiring of an exception.
func expiringCondition(of *v1alpha1.GuestPolicyException, soon bool) metav1.Condition {
	judged := metav1.Condition{Type: v1alpha1.ConditionExpiring, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotSoon, ObservedGeneration: of.Generation}
	if soon {
		judged.Status, judged.Reason = metav1.ConditionTrue, v1alpha1.ReasonExpiresSoon
		judged.Message = fmt.Sprintf("the exception ends at %s: mend the VMs, or request a new exception", policy.FormatExpiry(of.Spec.Expires.Time))
	}
	return judged
}
