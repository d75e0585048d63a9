package guestpolicy

import (
	"context"
	"sync/atomic"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/policy"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Names of objects in manifests/webhook/configurations.
const (
	validating = "kiln-validating"
	// registered is the configuration whose webhooks this controller writes.
	registered = "kiln-policies"
)

// Controller writes the conditions Accepted and Enforced into the status of GuestPolicies. Admission refuses a policy that does not compile, so Accepted is
// False only for policies that were stored while no webhook ran, or by another release of Kiln. Reviews do not read the conditions.
//
// It also writes the webhooks of the configuration kiln-policies: FailClosed of the webhooks of kiln-validating. So a cluster without a policy that denies
// refuses nothing while Kiln is down or slow, if the webhooks of kiln-validating have failurePolicy Ignore.
type Controller struct {
	Client client.Client
	// Validating reads the configuration kiln-validating, and Registered reads kiln-policies. Register sets them.
	Validating, Registered client.Reader
	// Mapper finds the resources of paramKinds, and Writer creates SubjectAccessReviews. Register sets both.
	Mapper meta.RESTMapper
	Writer client.Writer
	// Refusing selects the namespaces in which policies refuse; nil for all. In other namespaces nothing waits for Kiln.
	Refusing *metav1.LabelSelector

	// account is the account of the webhook, as soon as it is known.
	account atomic.Pointer[string]
}

// Register adds the controller to a manager. A write of the status does not change the generation, and so causes no event.
func (c *Controller) Register(mgr ctrl.Manager) error {
	if err := c.addParams(mgr); err != nil {
		return err
	}
	build := ctrl.NewControllerManagedBy(mgr).Named("guestpolicy").
		For(&v1alpha1.GuestPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	for name, reader := range map[string]*client.Reader{validating: &c.Validating, registered: &c.Registered} {
		named, err := watchedByName(mgr, name)
		if err != nil {
			return err
		}
		*reader = named
		every := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, _ *admissionv1.ValidatingWebhookConfiguration) []ctrl.Request {
			return c.everyPolicy(ctx)
		})
		build.WatchesRawSource(source.Kind(named, &admissionv1.ValidatingWebhookConfiguration{}, every))
	}
	return build.Complete(c)
}

// watchedByName adds a cache of one ValidatingWebhookConfiguration to a manager: RBAC allows a watch of one object only if the request selects its name.
func watchedByName(mgr ctrl.Manager, name string) (cache.Cache, error) {
	named, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&admissionv1.ValidatingWebhookConfiguration{}: {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, name)},
		},
	})
	if err != nil {
		return nil, err
	}
	return named, mgr.Add(named)
}

// everyPolicy returns a request for each policy, and one without a name: webhooks must go if there is no policy any more.
func (c *Controller) everyPolicy(ctx context.Context) []ctrl.Request {
	requests := []ctrl.Request{{}}
	var all v1alpha1.GuestPolicyList
	if err := c.Client.List(ctx, &all); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing GuestPolicies")
		return requests
	}
	for i := range all.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return requests
}

// Reconcile registers the webhooks of all policies, and writes the status of one. A request without a name only registers.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	asked, err := c.registerWebhooks(ctx)
	if apierrors.IsConflict(err) { // the event of the other write follows
		return ctrl.Result{}, nil
	}
	if err != nil || request.Name == "" {
		return ctrl.Result{}, err
	}
	var stored v1alpha1.GuestPolicy
	if err := c.Client.Get(ctx, request.NamespacedName, &stored); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	judged := stored.DeepCopy()
	meta.SetStatusCondition(&judged.Status.Conditions, acceptedCondition(&stored))
	if refusesObjects(&stored) {
		meta.SetStatusCondition(&judged.Status.Conditions, enforcedCondition(&stored, asked))
	} else {
		meta.RemoveStatusCondition(&judged.Status.Conditions, v1alpha1.ConditionEnforced)
	}
	if stored.Spec.ParamKind == nil || stored.Spec.ParamRef == nil {
		meta.RemoveStatusCondition(&judged.Status.Conditions, v1alpha1.ConditionParamsReadable)
		return ctrl.Result{}, condition.Write(ctx, c.Client, &stored, judged)
	}
	readable, err := c.paramsCondition(ctx, &stored)
	if err != nil {
		return ctrl.Result{}, err
	}
	meta.SetStatusCondition(&judged.Status.Conditions, readable)
	return ctrl.Result{RequeueAfter: paramInterval}, condition.Write(ctx, c.Client, &stored, judged)
}

// asked is about which objects the API server must ask Kiln, and otherwise refuses them.
type asked string

const (
	askedNothing asked = ""
	// askedClosed are the objects of policies that deny and have failurePolicy Fail.
	askedClosed asked = "closed"
	askedAll    asked = "all"
)

// registerWebhooks writes the webhooks of kiln-policies. The configurations are never created here: somebody who removes Kiln has deleted them.
func (c *Controller) registerWebhooks(ctx context.Context) (asked, error) {
	of, err := objects.GetOrNil(ctx, c.Validating, client.ObjectKey{Name: validating}, &admissionv1.ValidatingWebhookConfiguration{})
	if err != nil {
		return askedNothing, err
	}
	if of == nil {
		of = &admissionv1.ValidatingWebhookConfiguration{}
	}
	var policies v1alpha1.GuestPolicyList
	if err := c.Client.List(ctx, &policies); err != nil {
		return askedNothing, err
	}
	into, err := objects.GetOrNil(ctx, c.Registered, client.ObjectKey{Name: registered}, &admissionv1.ValidatingWebhookConfiguration{})
	if err != nil || into == nil {
		return askedAbout(of.Webhooks, false), err
	}
	next := into.DeepCopy()
	next.Webhooks = FailClosed(of.Webhooks, policies.Items)
	for i := range next.Webhooks {
		next.Webhooks[i].NamespaceSelector = intersectSelectors(next.Webhooks[i].NamespaceSelector, c.Refusing)
	}
	if !equality.Semantic.DeepEqual(into.Webhooks, next.Webhooks) {
		err = client.IgnoreNotFound(objects.Patch(ctx, c.Client, next, into))
	}
	return askedAbout(of.Webhooks, true), err
}

// askedAbout returns about which objects the API server must ask by the webhooks of kiln-validating, and by copies of them if those can be written.
func askedAbout(webhooks []admissionv1.ValidatingWebhook, copies bool) asked {
	found, open := 0, 0
	for _, webhook := range webhooks {
		if _, judges := judging[webhook.Name]; judges {
			found++
			if failsOpen(webhook) {
				open++
			}
		}
	}
	switch {
	case found == len(judging) && open == 0:
		return askedAll
	case found == len(judging) && copies:
		return askedClosed
	}
	return askedNothing
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

// enforcedCondition returns the condition Enforced of a policy that denies.
func enforcedCondition(of *v1alpha1.GuestPolicy, about asked) metav1.Condition {
	judgement := metav1.Condition{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionFalse, ObservedGeneration: of.Generation}
	switch {
	case about == askedNothing:
		judgement.Reason = v1alpha1.ReasonNotRegistered
		judgement.Message = "while Kiln does not answer, objects are admitted without this policy: ValidatingWebhookConfiguration '" + validating + "' or '" +
			registered + "' does not exist, or was changed. Apply Kiln's manifests again"
	case about == askedClosed && of.Spec.FailurePolicy == v1alpha1.PolicyIgnore:
		judgement.Reason = v1alpha1.ReasonMayBeSkipped
		judgement.Message = "while Kiln does not answer, objects are admitted without this policy, because its failurePolicy is Ignore"
	default:
		judgement.Status, judgement.Reason = metav1.ConditionTrue, v1alpha1.ReasonRegistered
		judgement.Message = "while Kiln does not answer, the API server refuses the objects that this policy judges"
	}
	return judgement
}
