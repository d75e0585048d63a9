package guestpolicy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/authorization"
	"github.com/kilnvm/kiln/internal/condition"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// paramInterval is the time after which the rights to params are looked at again: no event says that an administrator has granted them.
const paramInterval = time.Minute

// addParams sets what the condition ParamsReadable needs.
func (c *Controller) addParams(mgr ctrl.Manager) error {
	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	c.Mapper, c.Writer = mgr.GetRESTMapper(), direct
	return nil
}

// findWebhook returns the account of the webhook by the account of this controller: both have the same namespace and prefix. The API server is asked once. A
// process without policies that have params does not ask.
func (c *Controller) findWebhook(ctx context.Context) (string, error) {
	if known := c.account.Load(); known != nil {
		return *known, nil
	}
	self := &authenticationv1.SelfSubjectReview{}
	if err := c.Writer.Create(ctx, self); err != nil {
		return "", fmt.Errorf("asking for the account of this process: %w", err)
	}
	account := webhookAccount(self.Status.UserInfo.Username)
	c.account.Store(&account)
	return account, nil
}

// webhookAccount returns the account of the webhook beside the account of the controller. An account with another name is its own, as of a process outside of
// a cluster.
func webhookAccount(controller string) string {
	if prefix, found := strings.CutSuffix(controller, "-controller"); found {
		return prefix + "-webhook"
	}
	return controller
}

// paramsCondition returns the condition ParamsReadable of a policy with params.
func (c *Controller) paramsCondition(ctx context.Context, of *v1alpha1.GuestPolicy) (metav1.Condition, error) {
	judgement := metav1.Condition{Type: v1alpha1.ConditionParamsReadable, Status: metav1.ConditionFalse, ObservedGeneration: of.Generation}
	kind, ref := of.Spec.ParamKind, of.Spec.ParamRef
	mapping, err := MapParamKind(c.Mapper, *kind, ref.Namespace)
	if err != nil {
		judgement.Reason, judgement.Message = v1alpha1.ReasonParamKindNotServed, condition.WholeMessage(err.Error())
		return judgement, nil
	}
	account, err := c.findWebhook(ctx)
	if err != nil {
		return judgement, err
	}
	user := authenticationv1.UserInfo{Username: account, Groups: groupsOf(account)}
	for _, verb := range []string{"list", "watch"} {
		of := mapping.Resource
		action := authorizationv1.ResourceAttributes{Verb: verb, Group: of.Group, Version: of.Version, Resource: of.Resource,
			Namespace: ref.Namespace, Name: ref.Name}
		allowed, err := authorization.IsAllowed(ctx, c.Writer, user, action)
		if err != nil {
			return judgement, err
		}
		if !allowed {
			judgement.Reason = v1alpha1.ReasonParamsForbidden
			judgement.Message = condition.WholeMessage("failurePolicy decides about every object that this policy matches: " + forbiddenText(account, mapping, ref))
			return judgement, nil
		}
	}
	judgement.Status, judgement.Reason = metav1.ConditionTrue, v1alpha1.ReasonParamsReadable
	judgement.Message = fmt.Sprintf("the webhook may list and watch %s", mapping.Resource.GroupResource())
	return judgement, nil
}

// groupsOf returns the groups of a ServiceAccount.
func groupsOf(account string) []string {
	parts := strings.Split(account, ":")
	if len(parts) != 4 || parts[1] != "serviceaccount" {
		return []string{"system:authenticated"}
	}
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + parts[2], "system:authenticated"}
}

// forbiddenText names the right that the webhook lacks.
func forbiddenText(account string, mapping *meta.RESTMapping, ref *v1alpha1.GuestPolicyParamRef) string {
	where, named := "in all namespaces, by a ClusterRole", ""
	if ref.Namespace != "" {
		where = fmt.Sprintf("in namespace '%s', by a Role", ref.Namespace)
	}
	if ref.Name != "" {
		named = fmt.Sprintf(" with resourceNames [%s]", ref.Name)
	}
	return fmt.Sprintf("account %s needs the verbs list and watch on %s%s %s", account, mapping.Resource.GroupResource(), named, where)
}
