package policy_test

import (
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	"sigs.k8s.io/yaml"
)

// FuzzCompile reads any bytes as the spec of a policy: it compiles in time, neither compiling nor judging panics, and a policy with errors says so at a field.
// How long one step of an expression takes is not bounded.
func FuzzCompile(f *testing.F) {
	for _, spec := range ordinary {
		f.Add([]byte(spec))
	}
	for _, spec := range append(unmatched, "{matchConstraints: {resources: [pods]}, validations: [{expression: 'true'}]}",
		"{validations: [{expression: '[1].map(a, [a, a]).map(a, [a, a]) == [[1]]', field: 'a[b].c', reason: x}]}",
		"{variables: [{name: variables, expression: 'variables.variables'}, {name: in, expression: '`a`'}],"+
			"validations: [{expression: 'type(optional.of({1: b\"\"}))'}]}",
		"{failurePolicy: Ignore, validationActions: [Audit], auditAnnotations: [{key: a, valueExpression: '\"%.9f\".format([1.0])'}],"+
			" validations: [{expression: 'false'}]}") {
		f.Add([]byte(spec))
	}
	f.Fuzz(func(t *testing.T, spec []byte) {
		written := &v1alpha1.GuestPolicy{}
		if len(spec) > 4096 || yaml.Unmarshal(spec, &written.Spec) != nil {
			t.Skip("no spec of a GuestPolicy, or longer than needed")
		}
		start := time.Now()
		compiled, errs := policy.Compile(written)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("compiling took %v", d)
		}
		for _, err := range errs {
			if err.Field == "" || err.Error() == "" {
				t.Errorf("an error without a field: %v", err)
			}
		}
		result := policy.Judge(nil, []*policy.Policy{compiled}, small())
		for _, err := range result.Errors {
			if err.Origin != policy.RuleDenied && err.Origin != policy.RuleFailed {
				t.Errorf("an error of no rule: %v", err)
			}
		}
	})
}

// FuzzExpression compiles any text as an expression, and evaluates it.
func FuzzExpression(f *testing.F) {
	for _, expression := range []string{"guest.spec.domain.devices.disks.all(d, has(d.name))", "object.metadata.?labels.orValue({}).size() < 3",
		"[1, 2].map(a, [a]).flatten() == [1]", "{'a': 1}.transformMap(k, v, v) == {}", "quantity(\"1e3\").isInteger()", "\"a\".matches(\"(a+)+\")",
		"cidr(\"10.0.0.0/8\").containsIP(ip(\"10.0.0.1\"))", "url(\"https://a\").getHost() == \"\"", "\"%s\".format([[1]]) == \"\"", "dyn(object) == dyn(guest)"} {
		f.Add(expression)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		if len(expression) > 2048 {
			t.Skip("longer than needed")
		}
		compiled, _ := policy.Compile(&v1alpha1.GuestPolicy{Spec: validations(expression)})
		policy.Judge(nil, []*policy.Policy{compiled}, small())
		written := &v1alpha1.GuestPolicy{Spec: variables("a")}
		written.Spec.Variables[0].Expression = expression
		written.Spec.Validations[0].Expression = "dyn(variables.a) == dyn(variables.a)"
		compiled, _ = policy.Compile(written)
		policy.Judge(nil, []*policy.Policy{compiled}, small())
	})
}
