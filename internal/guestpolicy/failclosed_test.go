package guestpolicy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// installedHook is a webhook as manifests/beside-kubevirt installs it.
func installedHook(name, resource string, failure admissionv1.FailurePolicyType) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name: name, FailurePolicy: &failure, TimeoutSeconds: new(int32(1)),
		ClientConfig:      admissionv1.WebhookClientConfig{CABundle: []byte("a CA"), Service: &admissionv1.ServiceReference{Name: "kiln-webhook"}},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "in", Operator: metav1.LabelSelectorOpExists}}},
		MatchConditions:   []admissionv1.MatchCondition{{Name: "a-condition", Expression: "true"}},
		Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule: admissionv1.Rule{Resources: []string{resource}}}},
	}
}

// installedHooks are the webhooks of kiln-validating.
func installedHooks(failure admissionv1.FailurePolicyType) []admissionv1.ValidatingWebhook {
	return []admissionv1.ValidatingWebhook{
		installedHook("virtualmachines.validate.kilnvm.io", "virtualmachines", failure),
		installedHook("virtualmachineinstances.validate.kilnvm.io", "virtualmachineinstances", failure),
		installedHook("kubevirt.virtualmachineinstances.validate.kilnvm.io", "virtualmachineinstances", failure),
		installedHook("instancetypes.validate.kilnvm.io", "virtualmachineinstancetypes", failure),
	}
}

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// TestFailClosed: what the API server must ask about, by the policies of the cluster.
func TestFailClosed(t *testing.T) {
	deny := func(match v1alpha1.GuestPolicyMatch) v1alpha1.GuestPolicy {
		return v1alpha1.GuestPolicy{Spec: v1alpha1.GuestPolicySpec{MatchConstraints: match}}
	}
	many := []v1alpha1.GuestPolicy{}
	for i := range mostScopes + 1 {
		many = append(many, deny(v1alpha1.GuestPolicyMatch{NamespaceSelector: labelled("team", fmt.Sprint(i))}))
	}
	teams := deny(v1alpha1.GuestPolicyMatch{NamespaceSelector: labelled("team", "a")})
	creates := deny(v1alpha1.GuestPolicyMatch{Operations: []v1alpha1.GuestPolicyOperation{v1alpha1.PolicyCreate},
		Resources: []v1alpha1.GuestPolicyResource{v1alpha1.PolicyVirtualMachines}})
	instances := deny(v1alpha1.GuestPolicyMatch{Resources: []v1alpha1.GuestPolicyResource{v1alpha1.PolicyVirtualMachineInstances}})
	skipped, warns := deny(v1alpha1.GuestPolicyMatch{}), deny(v1alpha1.GuestPolicyMatch{})
	skipped.Spec.FailurePolicy = v1alpha1.PolicyIgnore
	warns.Spec.ValidationActions = []v1alpha1.GuestPolicyAction{v1alpha1.PolicyWarn, v1alpha1.PolicyAudit}
	audits := deny(v1alpha1.GuestPolicyMatch{})
	audits.Spec.ValidationActions = []v1alpha1.GuestPolicyAction{v1alpha1.PolicyAudit, v1alpha1.PolicyDeny}
	const both, vms = "deny.virtualmachines CREATE,UPDATE in; deny.virtualmachineinstances CREATE,UPDATE in", "deny.virtualmachines CREATE in"
	for _, test := range []struct {
		why      string
		policies []v1alpha1.GuestPolicy
		want     string
	}{
		{"no policy", nil, ""},
		{"no policy that must hold", []v1alpha1.GuestPolicy{skipped, warns}, ""},
		{"a policy with the defaults", []v1alpha1.GuestPolicy{deny(v1alpha1.GuestPolicyMatch{}), skipped}, both},
		{"Deny and Audit", []v1alpha1.GuestPolicy{audits}, both},
		{"creates of VMs", []v1alpha1.GuestPolicy{creates}, vms},
		{"two policies of all namespaces", []v1alpha1.GuestPolicy{creates, instances}, both},
		{"namespaces", []v1alpha1.GuestPolicy{teams}, "deny-*.virtualmachines CREATE,UPDATE in,team=a; deny-*.virtualmachineinstances CREATE,UPDATE in,team=a"},
		{"namespaces twice", []v1alpha1.GuestPolicy{teams, teams},
			"deny-*.virtualmachines CREATE,UPDATE in,team=a; deny-*.virtualmachineinstances CREATE,UPDATE in,team=a"},
		{"namespaces, and all of them", []v1alpha1.GuestPolicy{teams, creates}, both},
		{"objects", []v1alpha1.GuestPolicy{deny(v1alpha1.GuestPolicyMatch{
			ObjectSelector: labelled("gpu", "yes"), Resources: creates.Spec.MatchConstraints.Resources})},
			"deny-*.virtualmachines CREATE,UPDATE in gpu=yes"},
		{"a selector of everything", []v1alpha1.GuestPolicy{deny(v1alpha1.GuestPolicyMatch{NamespaceSelector: &metav1.LabelSelector{}})}, both},
		{"a selector that the API server refuses", []v1alpha1.GuestPolicy{deny(v1alpha1.GuestPolicyMatch{NamespaceSelector: labelled("team", "no value!")})}, both},
		{"more scopes than one request may be asked about", many, both},
	} {
		if got := closedText(FailClosed(installedHooks(admissionv1.Ignore), test.policies)); got != test.want {
			t.Errorf("%s: %s\nwant %s", test.why, got, test.want)
		}
		if closed := FailClosed(installedHooks(admissionv1.Fail), test.policies); len(closed) > 0 {
			t.Errorf("%s: webhooks that fail anyway are copied: %s", test.why, closedText(closed))
		}
	}
	of := installedHooks(admissionv1.Ignore)[:1]
	closed := FailClosed(of, []v1alpha1.GuestPolicy{teams})[0]
	if diff := cmp.Diff(installedHooks(admissionv1.Ignore)[:1], of); diff != "" {
		t.Errorf("the original changes: %s", diff)
	}
	if *closed.FailurePolicy != admissionv1.Fail || *closed.TimeoutSeconds != leastTimeout {
		t.Errorf("%s after %d s, want Fail after %d", *closed.FailurePolicy, *closed.TimeoutSeconds, leastTimeout)
	}
	closed.Name, closed.FailurePolicy, closed.TimeoutSeconds, closed.NamespaceSelector, closed.ObjectSelector = of[0].Name, of[0].FailurePolicy,
		of[0].TimeoutSeconds, of[0].NamespaceSelector, of[0].ObjectSelector
	if diff := cmp.Diff(of[0], closed); diff != "" {
		t.Errorf("another webhook than the original: %s", diff)
	}
	slow := installedHooks(admissionv1.Ignore)
	slow[0].TimeoutSeconds = new(int32(5))
	if seconds := *FailClosed(slow, []v1alpha1.GuestPolicy{creates})[0].TimeoutSeconds; seconds != 5 {
		t.Errorf("the copy of a webhook with 5 s has %d", seconds)
	}
}

// TestFailClosedCarriers: the API server asks about templates of what a policy may refuse. Labels of the carrier are not labels of what is made of it, and an
// update of a carrier makes something new.
func TestFailClosedCarriers(t *testing.T) {
	pools, replicas := installedHook("virtualmachinepools.validate.kilnvm.io", "virtualmachinepools", admissionv1.Ignore),
		installedHook("virtualmachineinstancereplicasets.validate.kilnvm.io", "virtualmachineinstancereplicasets", admissionv1.Ignore)
	own := installedHook("carriers.validate.kilnvm.io", "stacks", admissionv1.Ignore)
	for _, test := range []struct {
		why   string
		match v1alpha1.GuestPolicyMatch
		want  string
	}{
		{"all", v1alpha1.GuestPolicyMatch{}, "deny.virtualmachinepools CREATE,UPDATE in; deny.virtualmachineinstancereplicasets CREATE,UPDATE in; " +
			"deny.carriers CREATE,UPDATE in"},
		{"creates of VMs with a label", v1alpha1.GuestPolicyMatch{Resources: []v1alpha1.GuestPolicyResource{v1alpha1.PolicyVirtualMachines},
			ObjectSelector: labelled("gpu", "yes"), NamespaceSelector: labelled("team", "a"), Operations: []v1alpha1.GuestPolicyOperation{v1alpha1.PolicyCreate}},
			"deny-*.virtualmachinepools CREATE,UPDATE in,team=a; deny-*.carriers CREATE,UPDATE in,team=a"},
		{"VMIs", v1alpha1.GuestPolicyMatch{Resources: []v1alpha1.GuestPolicyResource{v1alpha1.PolicyVirtualMachineInstances}},
			"deny.virtualmachineinstancereplicasets CREATE,UPDATE in; deny.carriers CREATE,UPDATE in"},
		{"updates alone", v1alpha1.GuestPolicyMatch{Operations: []v1alpha1.GuestPolicyOperation{v1alpha1.PolicyUpdate}}, ""},
	} {
		policy := v1alpha1.GuestPolicy{Spec: v1alpha1.GuestPolicySpec{MatchConstraints: test.match}}
		got := closedText(FailClosed([]admissionv1.ValidatingWebhook{pools, replicas, own}, []v1alpha1.GuestPolicy{policy}))
		if got != test.want {
			t.Errorf("%s: %s\nwant %s", test.why, got, test.want)
		}
	}
	if about := askedAbout(append(installedHooks(admissionv1.Fail), pools), false); about != askedAll {
		t.Errorf("webhooks of templates decide nothing about the condition: '%s'", about)
	}
}

// closedText returns the names of webhooks without digests, their operations and their selectors.
func closedText(webhooks []admissionv1.ValidatingWebhook) string {
	var all []string
	for _, webhook := range webhooks {
		name := strings.TrimSuffix(webhook.Name, ".validate.kilnvm.io")
		if digest, found := strings.CutPrefix(name, "deny-"); found {
			name = "deny-*" + digest[strings.Index(digest, "."):]
		}
		var operations []string
		for _, operation := range webhook.Rules[0].Operations {
			operations = append(operations, string(operation))
		}
		text := name + " " + strings.Join(operations, ",") + " " + selectorText(webhook.NamespaceSelector) + " " + selectorText(webhook.ObjectSelector)
		all = append(all, strings.TrimSpace(text))
	}
	return strings.Join(all, "; ")
}

func selectorText(selector *metav1.LabelSelector) string {
	var all []string
	for _, requirement := range selector.MatchExpressions {
		text := requirement.Key
		if len(requirement.Values) > 0 {
			text += "=" + strings.Join(requirement.Values, "|")
		}
		all = append(all, text)
	}
	return strings.Join(all, ",")
}
