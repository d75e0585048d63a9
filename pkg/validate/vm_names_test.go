package validate_test

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// called is a name of n bytes in the namespace that others call 'shop', as a fragment.
func called(n int) string { return "metadata: {namespace: shop, name: " + strings.Repeat("a", n) + "}" }

// vmNamesCases: 'shop_' and the name have 247 bytes at most.
var vmNamesCases = []testCase{
	{
		why:   "a VM whose domain has no file",
		rule:  "metadata/domain-name",
		given: vm(called(243)),
		want:  []refusal{{field.ErrorTypeTooLong, "metadata.name"}},
	},
	{
		why:   "a VM whose domain just has a file",
		rule:  "metadata/domain-name",
		given: vm(called(242)),
	},
	{
		why:   "a VM that has its name already",
		rule:  "metadata/domain-name",
		given: vmChange(called(253), "spec: {runStrategy: Manual}"),
	},
	{
		why:   "a VMI whose domain has no file",
		rule:  "metadata/domain-name",
		given: vmi(called(243)),
		want:  []refusal{{field.ErrorTypeTooLong, "metadata.name"}},
	},
	{
		why:   "a VMI whose domain just has a file",
		rule:  "metadata/domain-name",
		given: vmi(called(242)),
	},
}
