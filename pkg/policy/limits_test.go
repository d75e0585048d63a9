package policy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	v1 "kubevirt.io/api/core/v1"
)

// loop costs so many squares of steps, about four a step.
func loop(n int) string {
	return fmt.Sprintf("lists.range(%[1]d).all(i, lists.range(%[1]d).all(j, i + j >= 0))", n)
}

func TestLimitOfOneExpression(t *testing.T) {
	t.Parallel()
	p, errs := policy.Compile(&v1alpha1.GuestPolicy{Spec: validations(loop(900))})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	result := policy.Judge(nil, []*policy.Policy{p}, small())
	if len(result.Errors) != 1 || !strings.Contains(result.Errors[0].Detail, "cost limit exceeded") || result.Cost > 2*celconfig.PerCallLimit {
		t.Errorf("%v, cost %d", result.Errors, result.Cost)
	}
}

// TestInterrupted: if the request was canceled, there must be no answer from half an evaluation.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	close(gone)
	for _, expression := range []string{"true", loop(300)} {
		p, errs := policy.Compile(&v1alpha1.GuestPolicy{Spec: validations(expression, expression)})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		result := policy.Judge(gone, []*policy.Policy{p, p}, small())
		if !result.Interrupted || len(result.Errors) > 0 || result.Cost > celconfig.PerCallLimit/10 {
			t.Errorf("%s: interrupted %v, errors %v, cost %d", expression, result.Interrupted, result.Errors, result.Cost)
		}
	}
}

// TestMessages: what a tenant wrote comes back in messages, bounded and on one line.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ why, label, message, expression, want string }{
		{"a message of its author", "", "written", "", "written"},
		{"the expression counts first", "", "written", `"made"`, "made"},
		{"but not if it is empty", "", "written", `" "`, "written"},
		{"nor if it fails", "", "written", `object.metadata.labels["none"]`, "written"},
		{"nor if it has lines", "a\nb", "written", `object.metadata.labels["app"]`, "written"},
		{"nor if it is long", strings.Repeat("a", 6000), "written", `object.metadata.labels["app"]`, "written"},
		{"nor if it is a megabyte", strings.Repeat("a", 3000), "written", `object.metadata.labels["app"].replace("", object.metadata.labels["app"])`, "written"},
		{"control characters", "\x1b[31mred\x07\u202edear", "written", `object.metadata.labels["app"]`, "?[31mred??dear"},
		{"no text of Unicode", "a\xff", "written", `object.metadata.labels["app"]`, "a?"},
		{"lines of its author", "", "two\n  lines", "", "two   lines"},
	} {
		spec := validations("false")
		spec.Validations[0].Message, spec.Validations[0].MessageExpression = test.message, test.expression
		p, errs := policy.Compile(&v1alpha1.GuestPolicy{Spec: spec})
		if len(errs) > 0 {
			t.Fatal(test.why, errs)
		}
		request := small()
		request.Object.(*v1.VirtualMachine).Labels["app"] = test.label
		result := policy.Judge(nil, []*policy.Policy{p}, request)
		if len(result.Violations) != 1 || result.Violations[0].Message != test.want {
			t.Errorf("%s: %+v, want '%s'", test.why, result.Violations, test.want)
		}
	}
}

// TestAudit: what an audit event gets.
func TestAudit(t *testing.T) {
	t.Parallel()
	p := compile(t, "test", `{validationActions: [Deny, Audit], auditAnnotations: [{key: name, valueExpression: object.metadata.name},
			{key: none, valueExpression: '" "'}],
		validations: [{expression: 'false', message: refused}, {expression: 'true'}, {expression: '1 > 2', message: neither}]}`)
	result := policy.Judge(nil, []*policy.Policy{p}, small())
	want := map[string]string{"test/name": "web", policy.ViolationsKey: `[` +
		`{"policy":"test","expressionIndex":0,"message":"refused","validationActions":["Deny","Audit"]},` +
		`{"policy":"test","expressionIndex":2,"message":"neither","validationActions":["Deny","Audit"]}]`}
	if diff := cmp.Diff(want, result.Audit); diff != "" || len(result.Errors) != 2 {
		t.Errorf("%v (-want +got):\n%s", result.Errors, diff)
	}
}

// TestPoliciesAreShared: one compiled policy judges requests of many goroutines, and each gets its own answer.
func TestPoliciesAreShared(t *testing.T) {
	t.Parallel()
	policies := append(many(t, 6, ""), compile(t, "named", `{variables: [{name: name, expression: object.metadata.name}],
		validations: [{expression: 'guest.spec.domain.devices.disks.all(d, d.name == variables.name)', messageExpression: variables.name}]}`))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				request := small()
				request.Object.SetName(fmt.Sprint(i))
				if result := policy.Judge(nil, policies, request); len(result.Errors) != 1 || !strings.HasSuffix(result.Errors[0].Detail, fmt.Sprint(": ", i)) {
					t.Error(i, result.Errors)
				}
			}
		})
	}
	all.Wait()
}
