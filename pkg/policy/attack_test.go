package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// doubled returns variables of which each has twice what the one before has.
func doubled(n int, first, next string) string {
	var all strings.Builder
	fmt.Fprintf(&all, "{name: v0, expression: '%s'}", first)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&all, ", {name: v%d, expression: '%s'}", i, strings.ReplaceAll(next, "@", fmt.Sprintf("variables.v%d", i-1)))
	}
	return all.String()
}

// nested returns an expression in which a list is wrapped so often in a comprehension that doubles it.
func nested(n int, inner, wrap string) string {
	return inner + strings.Repeat(wrap, n)
}

// TestRefusedWhenWritten has policies that cost too much. Each is refused with the position of what is expensive.
func TestRefusedWhenWritten(t *testing.T) {
	t.Parallel()
	const disks = "guest.spec.domain.devices.disks"
	for _, test := range []struct{ why, spec, at, text string }{
		{"loops in loops in loops", fmt.Sprintf("{validations: [{expression: 'true && %[1]s.all(a, %[1]s.all(b, %[1]s.all(c, a.name == c.name)))'}]}", disks),
			"spec.validations[0].expression", "1:44: may cost 1881412102, at most 10000000 is allowed"},
		{"a regular expression of another text, on the second line", "{validations: [{expression: \"object.metadata.name == '' ||\\n  " + disks +
			".all(d, guest.spec.volumes.exists(v, v.cloudInitNoCloud.userData.matches(d.serial)))\"}]}", "spec.validations[0].expression", "2:67: may cost"},
		{"maps of maps", fmt.Sprintf("{validations: [{expression: '%[1]s.map(a, %[1]s.map(b, %[1]s.filter(c, c.name == a.name))).size() > 0'}]}", disks),
			"spec.validations[0].expression", "at most 10000000 is allowed"},
		{"a regular expression for each pair", fmt.Sprintf("{validations: [{expression: '%[1]s.all(a, %[1]s.all(b, a.name.matches(b.name)))'}]}", disks),
			"spec.validations[0].expression", "at most 10000000 is allowed"},
		{"texts that grow with each variable", "{variables: [" + doubled(64, "object.metadata.name", "@ + @") +
			"], validations: [{expression: 'variables.v63 == object.metadata.name'}]}",
			"spec.variables[", "may cost"},
		{"lists that grow with each variable", "{variables: [" + doubled(64, disks, "@ + @") +
			"], validations: [{expression: 'variables.v63.exists(d, d.name == \"a\")'}]}",
			"spec.validations[0].expression", "may cost"},
	} {
		_, errs := policy.Compile(read(t, "test", test.spec))
		if len(errs) == 0 || !strings.HasPrefix(errs[0].Field, test.at) || !strings.Contains(errs[0].Detail, test.text) {
			t.Errorf("%s: %v, want at %s: %s", test.why, errs, test.at, test.text)
		}
	}
}

// TestAffordable has what is expensive and not too expensive: an administrator asks it of names.
func TestAffordable(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"guest.spec.domain.devices.disks.all(d, guest.spec.volumes.exists_one(v, v.name == d.name && has(v.persistentVolumeClaim)))",
		"guest.spec.domain.devices.interfaces.all(i, guest.spec.networks.exists(n, n.name == i.name && n.multus.networkName.startsWith(object.metadata.namespace)))",
		"object.metadata.annotations.all(k, object.metadata.annotations[k].matches('^[a-z]+$'))",
		"guest.spec.volumes.filter(v, has(v.dataVolume)).map(v, v.dataVolume.name).join(', ').size() < 1000",
		"variables.disks.all(d, guest.spec.volumes.filter(v, has(v.dataVolume)).exists(v, v.name == d.name))",
	} {
		spec := validations(expression)
		spec.Variables = []v1alpha1.GuestPolicyVariable{{Name: "disks", Expression: "guest.spec.domain.devices.disks"}}
		if _, errs := policy.Compile(&v1alpha1.GuestPolicy{Spec: spec}); len(errs) > 0 {
			t.Errorf("%s: %v", expression, errs)
		}
	}
}

// TestRunawayExpressionsEnd: what costs too much at run time, and what does not compile, ends with an error that names the policy and the expression.
func TestRunawayExpressionsEnd(t *testing.T) {
	t.Parallel()
	const first = "spec.validations[0].expression: "
	for _, test := range []struct{ why, expression, variables, want string }{
		{"a million numbers", "lists.range(1000000).size() == 0", "", first + "operation cancelled: actual cost limit exceeded"},
		{"loops in loops", loop(900), "", first + "operation cancelled: actual cost limit exceeded"},
		{"a loop in a variable", "variables.v", "{name: v, expression: '" + loop(900) + "'}",
			first + "variable 'v': operation cancelled: actual cost limit exceeded"},
		{"an exponent of a billion", `quantity("1e1000000000").isInteger()`, "", first + "a quantity may have at most 100 digits"},
		{"an exponent of a billion, asked", `isQuantity("1e1000000000")`, "", first + "a quantity may have at most 100 digits"},
		{"an exponent of a billion, by a tenant", "quantity(object.metadata.annotations.size).isInteger()", "", first + "a quantity may have at most 100 digits"},
		{"a separator as long as the list", `lists.range(512).map(i, "").join(lists.range(512).map(i, "0123456789").join("")) == ""`, "",
			"it does not compile: " + first},
		{"each with each", "sets.contains(lists.range(4000), lists.range(4000).map(i, i + 1))", "", "it does not compile: " + first},
		{"texts that grow with each variable", "variables.v63 == object.metadata.name", doubled(64, "object.metadata.name", "@ + @"),
			"it does not compile: spec.variables["},
	} {
		for _, failure := range []string{"Fail", "Ignore"} {
			spec := fmt.Sprintf("{failurePolicy: %s, variables: [%s], validations: [{expression: '%s', message: violated}]}", failure, test.variables, test.expression)
			p, _ := policy.Compile(read(t, "hostile", spec))
			request := small()
			request.Object.SetAnnotations(map[string]string{"size": "1e1000000000"})
			result := policy.Judge(nil, []*policy.Policy{p}, request)
			var texts []string
			if failure == "Fail" && len(result.Errors) == 1 {
				texts = []string{result.Errors[0].Detail}
			} else if failure == "Ignore" && len(result.Errors) == 0 {
				texts = result.Warnings
			}
			if len(texts) != 1 || !strings.HasPrefix(texts[0], "GuestPolicy 'hostile' failed: "+test.want) {
				t.Errorf("%s: %q, errors %v, want '%s'", test.why, texts, result.Errors, test.want)
			}
			// A step may pass the limit of a call once, by what the step costs.
			if result.Cost > 4*celconfig.PerCallLimit {
				t.Errorf("%s: cost %d", test.why, result.Cost)
			}
		}
	}
}

// TestForms has policies that are refused before they are compiled.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why  string
		spec v1alpha1.GuestPolicySpec
		at   string
	}{
		{"no validations", v1alpha1.GuestPolicySpec{}, "spec.validations"},
		{"a long expression", validations(strings.Repeat(" ", 16384) + "true"), "spec.validations[0].expression"},
		{"an empty one", validations(" "), "spec.validations[0].expression"},
		{"deep parentheses", validations(strings.Repeat("(", 8000) + "true" + strings.Repeat(")", 8000)), "spec.validations[0].expression"},
		{"deep lists", validations(strings.Repeat("[", 8000) + strings.Repeat("]", 8000) + " == []"), "spec.validations[0].expression"},
		{"deep negation", validations(strings.Repeat("!(", 5000) + "true" + strings.Repeat(")", 5000)), "spec.validations[0].expression"},
		{"a long chain", validations("1" + strings.Repeat(".size()", 2000) + " > 0"), "spec.validations[0].expression"},
		{"lists in lists", validations(nested(33, "[[1]]", ".map(a, [a, a])") + ".size() > 0"), "spec.validations[0].expression"},
		{"optional values in optional values", validations(strings.Repeat("optional.of(", 40) + "1" + strings.Repeat(")", 40) + ".hasValue()"),
			"spec.validations[0].expression"},
		{"types of types", validations(strings.Repeat("type(", 40) + "1" + strings.Repeat(")", 40) + " == int"), "spec.validations[0].expression"},
		{"a type that grows with each variable", growing(40), "spec.variables[32].expression"},
		{"much in all", validations(slices.Repeat([]string{strings.Repeat(" ", 16000) + "true"}, 17)...), "spec"},
		{"a reserved word", variables("in"), "spec.variables[0].name"},
		{"an invalid name", variables("a-b"), "spec.variables[0].name"},
		{"two of one name", variables("a", "a"), "spec.variables[1].name"},
		{"an unknown resource", worded(func(s *v1alpha1.GuestPolicySpec) {
			s.MatchConstraints.Resources = []v1alpha1.GuestPolicyResource{"pods"}
		}),
			"spec.matchConstraints.resources[0]"},
		{"an unknown operation", worded(func(s *v1alpha1.GuestPolicySpec) {
			s.MatchConstraints.Operations = []v1alpha1.GuestPolicyOperation{"DELETE"}
		}),
			"spec.matchConstraints.operations[0]"},
		{"actions that exclude each other", worded(func(s *v1alpha1.GuestPolicySpec) { s.ValidationActions = []v1alpha1.GuestPolicyAction{"Deny", "Warn"} }),
			"spec.validationActions"},
		{"one action twice", worded(func(s *v1alpha1.GuestPolicySpec) { s.ValidationActions = []v1alpha1.GuestPolicyAction{"Warn", "Warn"} }),
			"spec.validationActions[1]"},
		{"an unknown failurePolicy", worded(func(s *v1alpha1.GuestPolicySpec) { s.FailurePolicy = "Never" }), "spec.failurePolicy"},
		{"an unknown reason", worded(func(s *v1alpha1.GuestPolicySpec) { s.Validations[0].Reason = "Gone" }), "spec.validations[0].reason"},
		{"too many", variables(make([]string, 65)...), "spec.variables"},
	} {
		_, errs := policy.Compile(&v1alpha1.GuestPolicy{Spec: test.spec})
		if len(errs) == 0 || errs[0].Field != test.at {
			t.Errorf("%s: %v, want an error at %s", test.why, errs, test.at)
		}
	}
}

// worded returns a policy with some of its words changed.
func worded(change func(*v1alpha1.GuestPolicySpec)) v1alpha1.GuestPolicySpec {
	spec := validations("true")
	change(&spec)
	return spec
}

// validations returns a policy of expressions.
func validations(expressions ...string) (spec v1alpha1.GuestPolicySpec) {
	for _, expression := range expressions {
		spec.Validations = append(spec.Validations, v1alpha1.GuestPolicyValidation{Expression: expression})
	}
	return spec
}

// growing returns a policy of variables of which each is a list of the one before.
func growing(n int) v1alpha1.GuestPolicySpec {
	spec := validations("true")
	for i := range n {
		expression := "[1]"
		if i > 0 {
			expression = fmt.Sprintf("[variables.v%d]", i-1)
		}
		spec.Variables = append(spec.Variables, v1alpha1.GuestPolicyVariable{Name: fmt.Sprintf("v%d", i), Expression: expression})
	}
	return spec
}

// variables returns a policy of variables that are true.
func variables(names ...string) v1alpha1.GuestPolicySpec {
	spec := validations("true")
	for _, name := range names {
		spec.Variables = append(spec.Variables, v1alpha1.GuestPolicyVariable{Name: name, Expression: "true"})
	}
	return spec
}
