package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/policy"
)

// TestBoundedQuantities: quantity() and isQuantity() answer as Kubernetes' functions do.
func TestBoundedQuantities(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"quantity('1Gi').isGreaterThan(quantity('1M')) && quantity('1.5').asApproximateFloat() == 1.5",
		"isQuantity('1e3') && isQuantity('100m') && !isQuantity('x') && !isQuantity('')",
	} {
		p := compile(t, "true", fmt.Sprintf("{validations: [{expression: %q}]}", expression))
		if result := policy.Judge(nil, []*policy.Policy{p}, small()); len(result.Errors) > 0 {
			t.Errorf("%s: %v", expression, result.Errors)
		}
	}
	for expression, want := range map[string]string{
		"quantity('x').isInteger()":    "quantities must match the regular expression",
		"quantity(dyn(1)).isInteger()": "no such overload",
		"isQuantity(dyn(1))":           "no such overload",
	} {
		p := compile(t, "fails", fmt.Sprintf("{validations: [{expression: %q}]}", expression))
		result := policy.Judge(nil, []*policy.Policy{p}, small())
		if len(result.Errors) != 1 || !strings.Contains(result.Errors[0].Detail, want) {
			t.Errorf("%s: %v, want '%s'", expression, result.Errors, want)
		}
	}
}
