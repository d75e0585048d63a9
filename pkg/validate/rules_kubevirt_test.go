package validate_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/validate"
)

// TestKubeVirtOn has a rule of each verdict, from this package and from others.
func TestKubeVirtOn(t *testing.T) {
	for rule, want := range map[string]validate.KubeVirtVerdict{
		"hostdevices/source":        validate.KubeVirtRefuses,
		"hostdevices/device-name":   validate.KubeVirtRefusesSome,
		"hostdevices/request-form":  validate.KubeVirtAdmits,
		"vm/instancetype-conflict":  validate.KubeVirtRefuses,
		"vm/inference":              validate.KubeVirtRefuses,
		"request/unreadable":        validate.KubeVirtRefuses,
		"vm/preference-requirement": validate.KubeVirtRefusesSome,
		"preset/conflict":           validate.KubeVirtRefusesVMI,
		"no/such-rule":              validate.KubeVirtAdmits,
		"":                          validate.KubeVirtAdmits,
	} {
		if got := validate.KubeVirtOn(rule); got != want {
			t.Errorf("'%s': got '%s', want '%s'", rule, got, want)
		}
	}
}
