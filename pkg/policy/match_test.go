package policy_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	relabelled := func(r *policy.Request) {
		r.Operation, r.OldObject = v1alpha1.PolicyUpdate, &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "other"}}}
	}
	for _, test := range []struct {
		why, match string
		change     func(*policy.Request)
		want       bool
	}{
		{"no constraints", "{}", nil, true},
		{"no constraints, a VMI", "{}", func(r *policy.Request) { r.Resource = v1alpha1.PolicyVirtualMachineInstances }, true},
		{"another resource", "{resources: [virtualmachineinstances]}", nil, false},
		{"another operation", "{operations: [UPDATE]}", nil, false},
		{"the operation", "{operations: [UPDATE]}", relabelled, true},
		{"an empty selector", "{objectSelector: {}, namespaceSelector: {}}", nil, true},
		{"labels of the object", "{objectSelector: {matchLabels: {app: web}}}", nil, true},
		{"other labels", "{objectSelector: {matchLabels: {app: other}}}", nil, false},
		{"labels of the old object: an owner does not leave a policy by a label", "{objectSelector: {matchLabels: {app: other}}}", relabelled, true},
		{"labels of the namespace", "{namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [shop]}]}}", nil, true},
		{"a label that the namespace does not have", "{namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}", nil, false},
		{"no namespace", "{namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}", func(r *policy.Request) { r.Namespace = nil }, false},
		{"both, of which one does not", "{objectSelector: {matchLabels: {app: web}}, namespaceSelector: {matchLabels: {team: other}}}", nil, false},
	} {
		request := small()
		if test.change != nil {
			test.change(request)
		}
		p := compile(t, "test", "{matchConstraints: "+test.match+", validations: [{expression: 'true'}]}")
		if got := p.Matches(request); got != test.want {
			t.Errorf("%s: %v", test.why, got)
		}
	}
}

// TestOrderDoesNotMatter: policies do not depend on each other. If they are evaluated in another order, only the order of their results changes.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	policies := many(t, 6, "")
	for name, expression := range map[string]string{
		"false": "false", "fails": "object.metadata.labels.none == ''", "reads": "variables.v == variables.v", "costs": loop(600),
	} {
		policies = append(policies, compile(t, name, `{variables: [{name: v, expression: 'lists.range(60).map(x, lists.range(60))'}],
			validations: [{expression: "`+expression+`", message: refused}]}`))
	}
	results := func() (all []string) {
		for _, err := range policy.Judge(nil, policies, small()).Errors {
			all = append(all, err.Error())
		}
		slices.Sort(all)
		return all
	}
	want := results()
	slices.Reverse(policies)
	if diff := cmp.Diff(want, results()); diff != "" || len(want) != 3 {
		t.Errorf("%d errors (-want +got):\n%s", len(want), diff)
	}
}
