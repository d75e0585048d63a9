package guestpolicy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// judging are the webhooks of the configuration kiln-validating that judge policies, with the resource of each. The webhook of VMIs by which KubeVirt starts
// VMs is not one of them: the policies have judged their VMs, and a guest must start while Kiln is down.
var judging = map[string]v1alpha1.GuestPolicyResource{
	"virtualmachines.validate.kilnvm.io":         v1alpha1.PolicyVirtualMachines,
	"virtualmachineinstances.validate.kilnvm.io": v1alpha1.PolicyVirtualMachineInstances,
}

// carriers are the webhooks of kiln-validating that judge templates of VMs or VMIs, with the resources of what is made of them. A cluster need not have them.
var carriers = map[string][]v1alpha1.GuestPolicyResource{
	"virtualmachinepools.validate.kilnvm.io":               {v1alpha1.PolicyVirtualMachines},
	"virtualmachineinstancereplicasets.validate.kilnvm.io": {v1alpha1.PolicyVirtualMachineInstances},
	"virtualmachinetemplates.validate.kilnvm.io":           {v1alpha1.PolicyVirtualMachines},
	"kubevirtmachinetemplates.validate.kilnvm.io":          {v1alpha1.PolicyVirtualMachines},
	"kubevirtmachines.validate.kilnvm.io":                  {v1alpha1.PolicyVirtualMachines},
	// The kinds of the administrator: docs/reference/carriers.md.
	"carriers.validate.kilnvm.io": {v1alpha1.PolicyVirtualMachines, v1alpha1.PolicyVirtualMachineInstances},
}

const (
	// leastTimeout is the timeoutSeconds of a webhook with failurePolicy Fail, unless its original has a longer one: a create that would fail waits longer than
	// one that is admitted.
	leastTimeout = 2
	// mostScopes bounds the webhooks that the API server calls for one request. With more scopes, one webhook without selectors judges all.
	mostScopes = 4
)

// scope is the part of the requests that some policies judge, as far as selectors of webhooks express it.
type scope struct {
	namespaces, objects *metav1.LabelSelector
	resources           []v1alpha1.GuestPolicyResource
	operations          []v1alpha1.GuestPolicyOperation
}

// FailClosed returns copies, with failurePolicy Fail, of the webhooks that judge policies and have failurePolicy Ignore. They select what the policies with
// action Deny may refuse. Policies with failurePolicy Ignore do not count. The copies contain everything else of their originals: service, CA, conditions.
func FailClosed(webhooks []admissionv1.ValidatingWebhook, policies []v1alpha1.GuestPolicy) (closed []admissionv1.ValidatingWebhook) {
	scopes := scopesThatDeny(policies)
	for _, name := range slices.Sorted(maps.Keys(scopes)) {
		for _, original := range webhooks {
			resource, judges := judging[original.Name]
			switch {
			case !failsOpen(original):
			case judges && slices.Contains(scopes[name].resources, resource):
				closed = append(closed, scopes[name].closedCopy(original, name))
			case slices.ContainsFunc(carriers[original.Name], scopes[name].judgesNew):
				closed = append(closed, scopes[name].ofCarriers().closedCopy(original, name))
			}
		}
	}
	return closed
}

// scopesThatDeny returns the scopes of the policies that deny also while Kiln does not answer, by a part of a webhook's name.
func scopesThatDeny(policies []v1alpha1.GuestPolicy) map[string]scope {
	scopes, whole := map[string]scope{}, scope{}
	for i := range policies {
		if !refusesObjects(&policies[i]) || policies[i].Spec.FailurePolicy == v1alpha1.PolicyIgnore {
			continue
		}
		match := policies[i].Spec.MatchConstraints
		one := scope{namespaces: usableSelector(match.NamespaceSelector), objects: usableSelector(match.ObjectSelector), resources: match.Resources,
			operations: match.Operations}
		if len(one.resources) == 0 {
			one.resources = []v1alpha1.GuestPolicyResource{v1alpha1.PolicyVirtualMachines, v1alpha1.PolicyVirtualMachineInstances}
		}
		if len(one.operations) == 0 {
			one.operations = []v1alpha1.GuestPolicyOperation{v1alpha1.PolicyCreate, v1alpha1.PolicyUpdate}
		}
		scopes[one.nameOfSelectors()] = one.mergeScope(scopes[one.nameOfSelectors()])
		whole = whole.mergeScope(one)
	}
	if _, all := scopes[whole.nameOfSelectors()]; all || len(scopes) > mostScopes {
		return map[string]scope{whole.nameOfSelectors(): whole}
	}
	return scopes
}

// refusesObjects reports whether a policy refuses objects.
func refusesObjects(policy *v1alpha1.GuestPolicy) bool {
	return len(policy.Spec.ValidationActions) == 0 || slices.Contains(policy.Spec.ValidationActions, v1alpha1.PolicyDeny)
}

// usableSelector returns a selector that the API server accepts in a webhook, or nil for one that selects everything. A policy with an invalid selector does
// not compile, and fails for every object.
func usableSelector(selector *metav1.LabelSelector) *metav1.LabelSelector {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if selector == nil || err != nil || parsed.Empty() {
		return nil
	}
	return selector
}

// nameOfSelectors returns a text that is equal for scopes with the same selectors, and that names of webhooks may contain.
func (s scope) nameOfSelectors() string {
	if s.namespaces == nil && s.objects == nil {
		return "deny"
	}
	text, err := json.Marshal([]*metav1.LabelSelector{s.namespaces, s.objects})
	if err != nil {
		panic(err) // selectors always marshal
	}
	digest := sha256.Sum256(text)
	return "deny-" + hex.EncodeToString(digest[:4])
}

// mergeScope returns the scope with the resources and operations of another one, too.
func (s scope) mergeScope(other scope) scope {
	s.resources = mergeSorted(s.resources, other.resources)
	s.operations = mergeSorted(s.operations, other.operations)
	return s
}

// judgesNew reports whether the scope has creates of a resource: a template is judged as a create.
func (s scope) judgesNew(resource v1alpha1.GuestPolicyResource) bool {
	return slices.Contains(s.resources, resource) && slices.Contains(s.operations, v1alpha1.PolicyCreate)
}

// ofCarriers returns the scope for objects with templates. Their own labels are not the labels that a policy selects, and what an update changes is judged as a
// create.
func (s scope) ofCarriers() scope {
	return scope{namespaces: s.namespaces, operations: []v1alpha1.GuestPolicyOperation{v1alpha1.PolicyCreate, v1alpha1.PolicyUpdate}}
}

func mergeSorted[T cmp.Ordered](a, b []T) []T {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// closedCopy returns a copy of a webhook for the scope.
func (s scope) closedCopy(original admissionv1.ValidatingWebhook, name string) admissionv1.ValidatingWebhook {
	closed := *original.DeepCopy()
	closed.Name = name + "." + original.Name
	closed.FailurePolicy = new(admissionv1.Fail)
	closed.TimeoutSeconds = new(max(leastTimeout, *cmp.Or(original.TimeoutSeconds, new(int32(leastTimeout)))))
	closed.NamespaceSelector = intersectSelectors(original.NamespaceSelector, s.namespaces)
	closed.ObjectSelector = intersectSelectors(original.ObjectSelector, s.objects)
	for i := range closed.Rules {
		closed.Rules[i].Operations = slices.DeleteFunc(closed.Rules[i].Operations, func(operation admissionv1.OperationType) bool {
			return !slices.Contains(s.operations, v1alpha1.GuestPolicyOperation(operation))
		})
	}
	return closed
}

// intersectSelectors returns a selector of what both selectors select. nil selects everything.
func intersectSelectors(a, b *metav1.LabelSelector) *metav1.LabelSelector {
	all := &metav1.LabelSelector{}
	for _, one := range []*metav1.LabelSelector{a, b} {
		if one == nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(one.MatchLabels)) {
			all.MatchExpressions = append(all.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{one.MatchLabels[key]}})
		}
		all.MatchExpressions = append(all.MatchExpressions, one.MatchExpressions...)
	}
	return all
}

// failsOpen reports whether the API server admits an object if it gets no answer of a webhook.
func failsOpen(webhook admissionv1.ValidatingWebhook) bool {
	return webhook.FailurePolicy != nil && *webhook.FailurePolicy == admissionv1.Ignore
}
