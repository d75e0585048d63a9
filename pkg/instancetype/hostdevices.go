package instancetype

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of a size: gpus, hostDevices. Field of a preference: devices.preferredVirtualGPUOptions.
// A list is one field: a guest that brings devices of its own beside those of its size has two owners of one list.

func hostDeviceClaims(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) (claims []claim) {
	size, devices := set.Instancetype.Spec, path.Child("spec", "domain", "devices")
	if given := vmi.Spec.Domain.Devices.GPUs; len(size.GPUs) > 0 && len(given) > 0 {
		same := slices.EqualFunc(given, size.GPUs, func(a, b v1.GPU) bool {
			a.VirtualGPUOptions = b.VirtualGPUOptions // defaults and preferences fill them after the size
			return equality.Semantic.DeepEqual(a, b)
		})
		claims = append(claims, claim{path: devices.Child("gpus"), given: names(given, func(g v1.GPU) string { return g.Name }),
			size: names(size.GPUs, func(g v1.GPU) string { return g.Name }), same: same})
	}
	if given := vmi.Spec.Domain.Devices.HostDevices; len(size.HostDevices) > 0 && len(given) > 0 {
		same := equality.Semantic.DeepEqual(given, size.HostDevices)
		claims = append(claims, claim{path: devices.Child("hostDevices"), given: names(given, func(d v1.HostDevice) string { return d.Name }),
			size: names(size.HostDevices, func(d v1.HostDevice) string { return d.Name }), same: same})
	}
	return claims
}

func names[T any](list []T, name func(T) string) []string {
	var all []string
	for _, item := range list {
		all = append(all, name(item))
	}
	return all
}

func applyHostDevices(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	devices, size := &vmi.Spec.Domain.Devices, set.Instancetype.Spec.DeepCopy()
	if len(devices.GPUs) == 0 {
		devices.GPUs = size.GPUs
		log.Note(&devices.GPUs, set.Instancetype.Spec.GPUs)
	}
	if len(devices.HostDevices) == 0 {
		devices.HostDevices = size.HostDevices
		log.Note(&devices.HostDevices, set.Instancetype.Spec.HostDevices)
	}
}

func preferHostDevices(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if p.Spec.Devices == nil || p.Spec.Devices.PreferredVirtualGPUOptions == nil {
		return
	}
	gpus := vmi.Spec.Domain.Devices.GPUs
	shown := slices.ContainsFunc(gpus, func(gpu v1.GPU) bool { return vm.BootDisplay(gpu.VirtualGPUOptions) })
	for i := range gpus {
		if gpus[i].VirtualGPUOptions != nil {
			continue
		}
		options := p.Spec.Devices.PreferredVirtualGPUOptions.DeepCopy()
		if shown && vm.BootDisplay(options) { // a guest has one
			options.Display.RamFB = &v1.FeatureState{Enabled: new(false)}
		}
		gpus[i].VirtualGPUOptions, shown = options, shown || vm.BootDisplay(options)
		log.Note(&gpus[i].VirtualGPUOptions, p.Spec.Devices.PreferredVirtualGPUOptions)
	}
}
