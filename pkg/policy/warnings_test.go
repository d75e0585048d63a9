package policy

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/validate"
)

// TestWarnings: each expression of a policy that reads request.userInfo brings the warning that an API server may be the caller.
func TestWarnings(t *testing.T) {
	t.Parallel()
	const caller = "request.userInfo.username != 'x'"
	for why, c := range map[string]struct {
		spec v1alpha1.GuestPolicySpec
		want int
	}{
		"no caller":    {v1alpha1.GuestPolicySpec{Validations: []v1alpha1.GuestPolicyValidation{{Expression: "object.metadata.name != 'userInformation'"}}}, 0},
		"a validation": {v1alpha1.GuestPolicySpec{Validations: []v1alpha1.GuestPolicyValidation{{Expression: caller}}}, 1},
		"a condition":  {v1alpha1.GuestPolicySpec{MatchConditions: []v1alpha1.GuestPolicyCondition{{Name: "a", Expression: caller}}}, 1},
		"a variable":   {v1alpha1.GuestPolicySpec{Variables: []v1alpha1.GuestPolicyVariable{{Name: "a", Expression: caller}}}, 1},
	} {
		compiled, _ := Compile(&v1alpha1.GuestPolicy{Spec: c.spec})
		warnings := compiled.Warnings()
		if len(warnings) != c.want {
			t.Errorf("%s: %q", why, warnings)
		}
		for _, warning := range warnings {
			if len(warning) > validate.MaxWarning {
				t.Errorf("a warning of %d bytes is cut", len(warning))
			}
		}
	}
}
