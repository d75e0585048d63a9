package validate

import (
	"path"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: architecture, domain.machine.type, domain.rebootPolicy.
// Kiln supports the architecture, and the administrator permits the machine type.

var machineRules = []guestRule{
	{guestArchitecture, []Rule{
		{Name: "machine/architecture", KubeVirt: KubeVirtRefusesVMI, MendedBy: byCompletion | byPreference},
		{Name: "machine/architecture-gate", MendedBy: byPreference, Until: 7},
	}},
	{machineType, []Rule{
		{Name: "machine/type", MendedBy: byCompletion | byPreference},
	}},
	{machineBoard, []Rule{
		{Name: "machine/board", KubeVirt: KubeVirtAdmits, MendedBy: byCompletion | byPreference},
	}},
	{rebootPolicy, []Rule{
		{Name: "machine/reboot-policy-gate", MendedBy: byPreference},
		{Name: "machine/reboot-policy", KubeVirt: KubeVirtRefusesSome, MendedBy: byPreference},
	}},
}

// The architectures, spelled as in the API (and in Go).
const (
	amd64 = "amd64"
	arm64 = "arm64"
	s390x = "s390x"
)

// guestArchitecture is ValidateVirtualMachineInstancePerArch, which KubeVirt applies to VMIs only, and validateArchitecture of v1.7. The latter compares with
// the architecture of virt-api, for which the default architecture of the cluster stands here.
func guestArchitecture(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) field.ErrorList {
	at := path.Child("architecture")
	errs := supported(at, spec.Architecture, amd64, arm64, s390x).WithOrigin("machine/architecture")
	if len(errs) == 0 && spec.Architecture != limits.Architecture {
		errs = gated(limits, "MultiArchitecture", at).WithOrigin("machine/architecture-gate")
	}
	return errs
}

// machineType compares with the cluster's glob patterns. Without an architecture the patterns of amd64 apply, which is the default unless the cluster sets
// another architecture.
// In KubeVirt it is validateEmulatedMachine.
func machineType(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, at *field.Path) field.ErrorList {
	machine := spec.Domain.Machine
	if machine == nil || machine.Type == "" {
		return nil
	}
	allowed := allowedMachines(spec.Architecture, limits)
	if matchesAny(allowed, machine.Type) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at.Child("domain", "machine", "type"), machine.Type, allowed).WithOrigin("machine/type")}
}

// allowedMachines returns the patterns of machine types that an architecture may use.
func allowedMachines(architecture string, limits config.Limits) []string {
	if allowed, known := limits.EmulatedMachines[architecture]; known {
		return allowed
	}
	return limits.EmulatedMachines[amd64]
}

// board is a machine of QEMU: the alias of its newest version, and the beginning of the names of its versions.
type board struct{ alias, family string }

func (b board) hasMachine(machine string) bool {
	return machine == b.alias || strings.HasPrefix(machine, b.family)
}

// boards are the machines whose buses Kiln knows. There is one for each architecture.
var boards = map[string]board{
	amd64: {"q35", "pc-q35-"},
	arm64: {"virt", "virt-"},
	s390x: {"s390-ccw-virtio", "s390-ccw-virtio-"},
}

// machineBoard refuses machines that Kiln does not know: an administrator's patterns may match more.
// KubeVirt accepts whatever a pattern matches, and libvirt refuses a type that QEMU does not have.
func machineBoard(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, at *field.Path) field.ErrorList {
	machine := spec.Domain.Machine
	board, known := boards[spec.Architecture]
	if !known || machine == nil || machine.Type == "" || board.hasMachine(machine.Type) || len(machineType(spec, limits, at)) > 0 {
		return nil
	}
	return field.ErrorList{field.NotSupported(at.Child("domain", "machine", "type"), machine.Type,
		[]string{board.alias, board.family + "<version>"}).WithOrigin("machine/board")}
}

// matchesAny ignores a malformed pattern, as KubeVirt does.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// rebootPolicy is validateRebootPolicy. KubeVirt accepts any word and ignores those it does not know.
func rebootPolicy(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, at *field.Path) field.ErrorList {
	policy := spec.Domain.RebootPolicy
	if policy == nil {
		return nil
	}
	at = at.Child("domain", "rebootPolicy")
	return append(gated(limits, "RebootPolicy", at).WithOrigin("machine/reboot-policy-gate"),
		supported(at, *policy, v1.RebootPolicyReboot, v1.RebootPolicyTerminate).WithOrigin("machine/reboot-policy")...)
}
