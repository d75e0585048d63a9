package validate

import (
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices, as far as the architecture decides. The machines of arm64 and s390x lack devices that a PC has: QEMU would not
// start with what is refused here.

var deviceArchitectureRules = []guestRule{
	{mainframe, []Rule{
		{Name: "devices/s390x", KubeVirt: KubeVirtRefusesSome, MendedBy: byPreference, NamesArchitecture: true},
		{Name: "devices/input-bus-s390x", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
		{Name: "disks/bus-s390x", KubeVirt: KubeVirtRefusesSome, MendedBy: byPreference},
	}},
	{pciAddresses, []Rule{
		{Name: "devices/pci-address", KubeVirt: KubeVirtRefusesSome, MendedBy: byPreference},
	}},
}

// mainframe refuses devices that s390x does not have: USB, and what is built into a PC.
// KubeVirt accepts all of these on s390x and fails when the VMI starts; its own s390x rules judge only watchdog and video.
func mainframe(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if spec.Architecture != s390x {
		return nil
	}
	numa := path.Child("domain", "cpu", "numa", "guestMappingPassthrough")
	devices, path := spec.Domain.Devices, path.Child("domain", "devices")
	lacks := func(at *field.Path, what string) {
		errs = append(errs, field.Forbidden(at, "architecture 's390x' has no "+what+": remove it").WithOrigin("devices/s390x"))
	}
	// The annotation for NUMA nodes of the owner's choice has its own rule, cpu/numa-nodes-architecture.
	if vm.MirrorsNUMA(spec.Domain.CPU) {
		lacks(numa, "NUMA nodes")
	}
	if devices.TPM != nil && ptr.Deref(devices.TPM.Enabled, true) {
		lacks(path.Child("tpm"), "TPM")
	}
	if devices.Sound != nil {
		lacks(path.Child("sound"), "sound device")
	}
	// clientPassthrough redirects USB devices of the user's own machine.
	if devices.ClientPassthrough != nil {
		lacks(path.Child("clientPassthrough"), "USB")
	}
	for i, input := range devices.Inputs {
		if input.Bus == v1.InputBusUSB {
			errs = append(errs, field.NotSupported(path.Child("inputs").Index(i).Child("bus"), input.Bus,
				[]v1.InputBus{v1.InputBusVirtio}).WithOrigin("devices/input-bus-s390x"))
		}
	}
	for i := range devices.Disks {
		for target, bus := range eachBus(&devices.Disks[i]) {
			if lacksBus(s390x, target, bus) {
				errs = append(errs, field.NotSupported(path.Child("disks").Index(i).Child(target, "bus"), bus,
					hardware.BusesFor(s390x, target)).WithOrigin("disks/bus-s390x"))
			}
		}
	}
	return errs
}

// pciAddresses refuses addresses that the machine does not have, and those that two devices use.
// KubeVirt compares only the form (validatePciAddress). Package address, which assigns all other addresses, knows the slots that the
// machine uses itself, and that a function above 0 needs function 0.
func pciAddresses(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	var pinned []address.Device
	for i, disk := range spec.Domain.Devices.Disks {
		if target := disk.Disk; target != nil && pciPattern.MatchString(target.PciAddress) {
			at := path.Child("domain", "devices", "disks").Index(i).Child("disk", "pciAddress")
			pinned = append(pinned, address.Device{Key: record.Key("disk", disk.Name), Pin: target.PciAddress, Path: at})
		}
	}
	for i, nic := range spec.Domain.Devices.Interfaces {
		if pciPattern.MatchString(nic.PciAddress) {
			at := nicPath(path, i, "pciAddress")
			pinned = append(pinned, address.Device{Key: record.Key("interface", nic.Name), Pin: nic.PciAddress, Path: at})
		}
	}
	if len(pinned) == 0 {
		return nil
	}
	return address.Judge(spec.Architecture, pinned).WithOrigin("devices/pci-address")
}
