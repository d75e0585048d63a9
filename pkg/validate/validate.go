// Package validate judges specs: independent rules, all errors at once, in a stable order, at real paths. It changes nothing
// and knows no default: what a rule would need one for, mutate has made explicit.
package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// rule judges one area of a guest. spec is the path of the guest's spec.
type rule func(guest *v1.VirtualMachineInstanceSpec, limits config.Limits, spec *field.Path) field.ErrorList

// rules in the order in which their errors are reported. Order does not matter otherwise.
var rules = []rule{
	architecture, machine, topology, dedicatedCPUs, podCPU, guestMemory, hugepages, podMemory, bootloader, kernelBoot, hyperv,
	disks, bootOrders, volumes, interfaces, networks, inputs, watchdog, hostDevices, launchSecurity, placement,
}

// Guest judges the explicit spec and metadata of a guest. path is the object that holds metadata and spec: nil for a VMI,
// spec.template for a VM.
func Guest(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	for _, judge := range rules {
		errs = append(errs, judge(&vmi.Spec, limits, path.Child("spec"))...)
	}
	return errs
}

// Warnings are short sentences about what is deprecated, ignored or floating.
func Warnings(vmi *v1.VirtualMachineInstance) (warnings []string) {
	for _, volume := range vmi.Spec.Volumes {
		if c := volume.CloudInitNoCloud; c != nil && len(c.UserData) > maxCloudInit/2 {
			warnings = append(warnings, "volume '"+volume.Name+"': long user data is better kept in a Secret")
		}
	}
	return warnings
}
