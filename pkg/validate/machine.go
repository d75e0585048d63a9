package validate

import (
	"path"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: architecture, domain.machine.type. Kiln renders amd64, arm64 and s390x; which machine types a guest may name is the
// administrator's choice (emulatedMachines, glob patterns per architecture).

var architectures = []string{"amd64", "arm64", "s390x"}

func architecture(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) field.ErrorList {
	return supported(guest.Architecture, architectures, spec.Child("architecture"))
}

func machine(guest *v1.VirtualMachineInstanceSpec, limits config.Limits, spec *field.Path) field.ErrorList {
	patterns := limits.EmulatedMachines[guest.Architecture]
	if guest.Domain.Machine == nil || len(patterns) == 0 {
		return nil
	}
	kind := guest.Domain.Machine.Type
	if slices.ContainsFunc(patterns, func(p string) bool { ok, err := path.Match(p, kind); return ok && err == nil }) {
		return nil
	}
	return field.ErrorList{field.Invalid(spec.Child("domain", "machine", "type"), kind,
		"must match one of the cluster's patterns for architecture '"+guest.Architecture+"': "+strings.Join(patterns, ", "))}
}
