// Package validate judges specs: independent rules, all errors at once, stable order, real paths.
package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Guest judges the explicit spec and metadata of a guest. path is the object that holds metadata and spec: nil for a
// VMI, spec.template for a VM.
func Guest(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) field.ErrorList {
	return nil
}

// VM judges what only a VirtualMachine has: run strategy, matchers, data volume templates. old is nil on create.
func VM(vm, old *v1.VirtualMachine, limits config.Limits) field.ErrorList { return nil }

// GuestUpdate judges a change of a VMI made by someone who is not one of Kiln's own service accounts.
func GuestUpdate(vmi, old *v1.VirtualMachineInstance) field.ErrorList { return nil }

// Instancetype, Preference and Preset judge catalog objects; path is their spec.
func Instancetype(spec *v1beta1.VirtualMachineInstancetypeSpec, path *field.Path) field.ErrorList {
	return nil
}

// Preference judges a preference's spec.
func Preference(spec *v1beta1.VirtualMachinePreferenceSpec, path *field.Path) field.ErrorList {
	return nil
}

// Preset judges a preset's spec.
func Preset(spec *v1.VirtualMachineInstancePresetSpec, path *field.Path) field.ErrorList { return nil }

// Warnings are short sentences about what is deprecated, ignored or floating.
func Warnings(vmi *v1.VirtualMachineInstance) []string { return nil }
