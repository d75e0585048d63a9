package instancetype

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of an instancetype: gpus, hostDevices. Field of a preference: devices.preferredVirtualGPUOptions.

// ownedHostDeviceFields returns the fields of applyGPUs and applyHostDevices. A list is one field: a VM with an instancetype that has GPUs may not add other
// GPUs.
func ownedHostDeviceFields(set Set, vmi *v1.VirtualMachineInstance) (fields []ownedField) {
	wanted := set.Instancetype.Spec
	if given := vmi.Spec.Domain.Devices.GPUs; len(wanted.GPUs) > 0 && len(given) > 0 {
		same := slices.EqualFunc(given, wanted.GPUs, func(a, b v1.GPU) bool {
			a.VirtualGPUOptions = b.VirtualGPUOptions // defaults and preferences fill them after the instancetype
			return equality.Semantic.DeepEqual(a, b)
		})
		fields = append(fields, ownedField{field: "spec.domain.devices.gpus", given: namesOf(given, func(g v1.GPU) string { return g.Name }),
			wanted: namesOf(wanted.GPUs, func(g v1.GPU) string { return g.Name }), same: same})
	}
	if given := vmi.Spec.Domain.Devices.HostDevices; len(wanted.HostDevices) > 0 && len(given) > 0 {
		same := equality.Semantic.DeepEqual(given, wanted.HostDevices)
		fields = append(fields, ownedField{field: "spec.domain.devices.hostDevices", given: namesOf(given, func(d v1.HostDevice) string { return d.Name }),
			wanted: namesOf(wanted.HostDevices, func(d v1.HostDevice) string { return d.Name }), same: same})
	}
	return fields
}

func namesOf[T any](list []T, name func(T) string) []string {
	var all []string
	for _, item := range list {
		all = append(all, name(item))
	}
	return all
}

// applyHostDevices is applyGPUs and applyHostDevices. Trap: KubeVirt's devices share pointers with its cached object.
func applyHostDevices(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	devices, wanted := &vmi.Spec.Domain.Devices, set.Instancetype.Spec.DeepCopy()
	if len(devices.GPUs) == 0 {
		devices.GPUs = wanted.GPUs
		log.Note(&devices.GPUs, set.Instancetype.Spec.GPUs)
	}
	if len(devices.HostDevices) == 0 {
		devices.HostDevices = wanted.HostDevices
		log.Note(&devices.HostDevices, set.Instancetype.Spec.HostDevices)
	}
}

// preferHostDevices fills virtualGPUOptions of GPUs without such options, which KubeVirt never reads from the preference. Only one GPU of a VMI may
// be the boot display (ramFB), so that only the first GPU gets a preferred ramFB.
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
		if shown && vm.BootDisplay(options) {
			options.Display.RamFB = &v1.FeatureState{Enabled: new(false)}
		}
		gpus[i].VirtualGPUOptions, shown = options, shown || vm.BootDisplay(options)
		log.Note(&gpus[i].VirtualGPUOptions, p.Spec.Devices.PreferredVirtualGPUOptions)
	}
}
