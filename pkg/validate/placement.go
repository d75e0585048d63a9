package validate

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Fields: hostname, subdomain, evictionStrategy, startStrategy; runStrategy, running and template of a VM; catalog objects.

var evictions = []v1.EvictionStrategy{v1.EvictionStrategyExternal, v1.EvictionStrategyLiveMigrate, v1.EvictionStrategyLiveMigrateIfPossible, v1.EvictionStrategyNone}

func placement(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	if guest.Hostname != "" {
		for _, problem := range validation.IsDNS1123Label(guest.Hostname) {
			errs = append(errs, field.Invalid(spec.Child("hostname"), guest.Hostname, problem))
		}
	}
	if guest.Subdomain != "" {
		for _, problem := range validation.IsDNS1123Subdomain(guest.Subdomain) {
			errs = append(errs, field.Invalid(spec.Child("subdomain"), guest.Subdomain, problem))
		}
	}
	if guest.EvictionStrategy != nil {
		errs = append(errs, supported(*guest.EvictionStrategy, evictions, spec.Child("evictionStrategy"))...)
	}
	if guest.StartStrategy != nil {
		errs = append(errs, supported(*guest.StartStrategy, []v1.StartStrategy{v1.StartStrategyPaused}, spec.Child("startStrategy"))...)
		if guest.LivenessProbe != nil {
			errs = append(errs, field.Forbidden(spec.Child("livenessProbe"), "a guest that starts paused would fail it"))
		}
	}
	return errs
}

var runStrategies = []v1.VirtualMachineRunStrategy{v1.RunStrategyAlways, v1.RunStrategyHalted, v1.RunStrategyManual, v1.RunStrategyOnce, v1.RunStrategyRerunOnFailure, v1.RunStrategyWaitAsReceiver}

// VM judges what only a VirtualMachine has: run strategy, matchers, data volume templates. old is nil on create.
func VM(vm, _ *v1.VirtualMachine, limits config.Limits) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if vm.Spec.Template == nil {
		errs = append(errs, field.Required(spec.Child("template"), "describe the guest"))
	}
	strategy := vm.Spec.RunStrategy
	switch {
	case vm.Spec.Running != nil && strategy != nil:
		errs = append(errs, field.Forbidden(spec.Child("running"), "may not be set together with `runStrategy`"))
	case vm.Spec.Running == nil && strategy == nil:
		errs = append(errs, field.Required(spec.Child("runStrategy"), "say 'Always' or 'Halted'"))
	case strategy != nil:
		errs = append(errs, supported(*strategy, runStrategies, spec.Child("runStrategy"))...)
		if *strategy == v1.RunStrategyWaitAsReceiver && !limits.Gates.Enabled("DecentralizedLiveMigration") {
			errs = append(errs, field.Forbidden(spec.Child("runStrategy"), "the cluster's feature gate 'DecentralizedLiveMigration' is off"))
		}
	}
	return errs
}

// GuestUpdate judges a change of a VMI made by someone who is not one of Kiln's own service accounts.
func GuestUpdate(vmi, old *v1.VirtualMachineInstance) field.ErrorList {
	if equality.Semantic.DeepEqual(vmi.Spec, old.Spec) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), "a running guest's spec may not be changed: change its VirtualMachine and restart it")}
}

// Instancetype judges a size's spec; path is that spec.
func Instancetype(size *v1beta1.VirtualMachineInstancetypeSpec, path *field.Path) (errs field.ErrorList) {
	if size.CPU.Guest < 1 {
		errs = append(errs, field.Invalid(path.Child("cpu", "guest"), size.CPU.Guest, "must be 1 or greater"))
	}
	memory := path.Child("memory")
	if size.Memory.Guest.Sign() <= 0 {
		errs = append(errs, field.Invalid(memory.Child("guest"), size.Memory.Guest.String(), "must be greater than 0"))
	}
	if p := size.Memory.OvercommitPercent; p < 0 || p > 100 {
		errs = append(errs, field.Invalid(memory.Child("overcommitPercent"), p, "must be between 0 and 100"))
	} else if p > 0 && size.Memory.Hugepages != nil {
		errs = append(errs, field.Forbidden(memory.Child("overcommitPercent"), "huge pages cannot be overcommitted"))
	}
	return errs
}

var topologies = []v1beta1.PreferredCPUTopology{v1beta1.Any, v1beta1.Cores, v1beta1.Sockets, v1beta1.Spread, v1beta1.Threads, v1beta1.DeprecatedPreferAny,
	v1beta1.DeprecatedPreferCores, v1beta1.DeprecatedPreferSockets, v1beta1.DeprecatedPreferSpread, v1beta1.DeprecatedPreferThreads}

// Preference judges a preference's spec; path is that spec.
func Preference(preference *v1beta1.VirtualMachinePreferenceSpec, path *field.Path) (errs field.ErrorList) {
	cpu := preference.CPU
	if cpu == nil {
		return nil
	}
	at := path.Child("cpu")
	if cpu.PreferredCPUTopology != nil {
		errs = append(errs, supported(*cpu.PreferredCPUTopology, topologies, at.Child("preferredCPUTopology"))...)
	}
	if options := cpu.SpreadOptions; options != nil && options.Across != nil {
		across := []v1beta1.SpreadAcross{v1beta1.SpreadAcrossCoresThreads, v1beta1.SpreadAcrossSocketsCores, v1beta1.SpreadAcrossSocketsCoresThreads}
		errs = append(errs, supported(*options.Across, across, at.Child("spreadOptions", "across"))...)
		if *options.Across == v1beta1.SpreadAcrossCoresThreads && options.Ratio != nil && *options.Ratio != 2 {
			errs = append(errs, field.Invalid(at.Child("spreadOptions", "ratio"), *options.Ratio, "must be 2 across cores and threads"))
		}
	}
	return errs
}

// Preset judges a preset's spec; path is that spec.
func Preset(preset *v1.VirtualMachineInstancePresetSpec, path *field.Path) field.ErrorList {
	if preset.Domain == nil {
		return field.ErrorList{field.Required(path.Child("domain"), "a preset without a domain fills nothing")}
	}
	return nil
}

// supported refuses a value that is not one of the list.
func supported[T ~string](value T, values []T, at *field.Path) field.ErrorList {
	if slices.Contains(values, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, values)}
}
