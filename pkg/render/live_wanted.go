package render

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// WantedHardware returns the hardware that a VMI requests for a running guest that was started from the frontend. Hardware that cannot change while the guest
// runs is as in the frontend.
func WantedHardware(vmi *v1.VirtualMachineInstance, front *libvirtxml.Domain) v1alpha1.LiveHardware {
	spec := &vmi.Spec
	live := v1alpha1.LiveHardware{VCPUs: wantedVCPUs(spec.Domain.CPU, front), MemoryKiB: wantedMemory(spec.Domain.Memory, front)}
	for _, device := range pluggableDevices(front) {
		switch state, there := wantedDevice(spec, device); {
		case !there:
			live.Absent = append(live.Absent, device.Key())
		case state == v1.InterfaceStateLinkDown:
			live.LinksDown = append(live.LinksDown, device.Name)
		case device.Disk != nil && device.Disk.Device == "cdrom" &&
			!slices.ContainsFunc(spec.Volumes, func(v v1.Volume) bool { return v.Name == device.Name }):
			live.Ejected = append(live.Ejected, device.Name)
		}
	}
	return sortLists(live)
}

// BootedHardware returns the CPUs and the memory that a frontend starts a guest with.
func BootedHardware(front *libvirtxml.Domain) v1alpha1.LiveHardware {
	return v1alpha1.LiveHardware{VCPUs: wantedVCPUs(nil, front), MemoryKiB: wantedMemory(nil, front)}
}

func wantedVCPUs(cpu *v1.CPU, front *libvirtxml.Domain) int32 {
	most, booted := int64(front.VCPU.Value), int64(front.VCPU.Current) //nolint:gosec // far below
	if booted == 0 {
		booted = most
	}
	if wanted := vm.VCPUs(cpu); wanted >= booted && wanted <= most {
		return int32(wanted) //nolint:gosec // compared above
	}
	return int32(booted) //nolint:gosec // far below
}

func wantedMemory(memory *v1.Memory, front *libvirtxml.Domain) int64 {
	booted := int64(front.Memory.Value) //nolint:gosec // far below
	if memory == nil || memory.Guest == nil || front.MaximumMemory == nil {
		return booted
	}
	if wanted := memory.Guest.Value() >> 10; wanted >= booted && wanted <= int64(front.MaximumMemory.Value) { //nolint:gosec // far below
		return wanted
	}
	return booted
}

// wantedDevice reports whether a VMI has a disk or interface of the frontend, and the state of the link that it asks for.
func wantedDevice(spec *v1.VirtualMachineInstanceSpec, device abi.Device) (state v1.InterfaceState, there bool) {
	if device.Disk != nil {
		return "", slices.ContainsFunc(spec.Domain.Devices.Disks, func(d v1.Disk) bool { return d.Name == device.Name })
	}
	i := slices.IndexFunc(spec.Domain.Devices.Interfaces, func(n v1.Interface) bool { return n.Name == device.Name })
	if i < 0 {
		return "", false
	}
	state = spec.Domain.Devices.Interfaces[i].State
	return state, state != v1.InterfaceStateAbsent
}
