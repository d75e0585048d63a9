package main

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/address"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// domainDifference is a fact that two domains do not share. Absent is empty.
type domainDifference struct{ name, want, got string }

// domainDeviation is a difference of domains that docs/reference/deviations.md lists under the same name. It looks at both values where it can.
type domainDeviation struct {
	name     string
	explains func(*v1.VirtualMachineInstance, domainDifference) bool
}

var domainDeviations = []domainDeviation{
	// The reference makes one NUMA node for virtiofs, passt and huge pages, and Kiln only where memory can grow.
	{"No synthetic NUMA node", func(vmi *v1.VirtualMachineInstance, d domainDifference) bool {
		return d.name == "cell 0" && !mirrorsHostNUMA(vmi) && d.got == ""
	}},
	// Neither number nor size of the nodes can be compared: the reference has one for each node of the host with a free CPU, Kiln as few as can hold the VMI.
	{"Mirrored NUMA nodes", func(vmi *v1.VirtualMachineInstance, d domainDifference) bool {
		return strings.HasPrefix(d.name, "cell ") && mirrorsHostNUMA(vmi)
	}},
	// The reference gives tpm-crb only to a persistent TPM.
	{"The TPM's model does not depend on persistence", func(vmi *v1.VirtualMachineInstance, d domainDifference) bool {
		return d.name == "tpm" && d.want == "tpm-tis" && d.got == "tpm-crb"
	}},
	{ignored, func(vmi *v1.VirtualMachineInstance, d domainDifference) bool {
		// Both values are compared, so that another mistake in apic or smm stays unexplained.
		features := vmi.Spec.Domain.Features
		return d.name == "feature apic" && d.want == "on" && d.got == "on on" && features.APIC.EndOfInterrupt ||
			d.name == "feature smm" && d.want == "" && d.got == "off"
	}},
	{ignored, func(vmi *v1.VirtualMachineInstance, d domainDifference) bool {
		of, name, _ := strings.Cut(d.name, " of interface ")
		i := slices.IndexFunc(vmi.Spec.Domain.Devices.Interfaces, func(n v1.Interface) bool { return n.Name == name })
		if i < 0 || d.want != "" {
			return false
		}
		nic := vmi.Spec.Domain.Devices.Interfaces[i]
		return nic.PasstBinding != nil && slices.Contains([]string{"boot order", "link", "rom"}, of) || nic.SRIOV != nil && of == "acpi index"
	}},
	{ignored, func(vmi *v1.VirtualMachineInstance, d domainDifference) bool {
		// Kiln renders the serial of a CD-ROM drive, and the reference leaves it out.
		name, of := strings.CutPrefix(d.name, "serial of disk ")
		return of && d.want == "" && slices.ContainsFunc(vmi.Spec.Domain.Devices.Disks, func(disk v1.Disk) bool { return disk.Name == name && disk.CDRom != nil })
	}},
	// The reference leaves it out with the serial console. Kiln always has it.
	{"The virtio-serial controller is always there", func(vmi *v1.VirtualMachineInstance, d domainDifference) bool {
		console := vmi.Spec.Domain.Devices.AutoattachSerialConsole
		return d.name == "controller virtio-serial" && d.want == "" && console != nil && !*console
	}},
	{"Any slot of a PCI bus", func(vmi *v1.VirtualMachineInstance, d domainDifference) bool {
		// The ports of a bridge are on the root bus, where the other devices of such a VMI are too.
		return strings.HasPrefix(d.name, addressOf) && usesRootBus(vmi) && slices.ContainsFunc(vmi.Spec.Domain.Devices.Interfaces, func(n v1.Interface) bool {
			at, err := address.ParsePCI(n.PciAddress)
			return err == nil && at.Bus > 0 && at.Slot > 0
		})
	}},
	// The reference leaves the card to the hook of the plugin, so that its document has no interface.
	{"Interfaces of binding plugins", func(vmi *v1.VirtualMachineInstance, d domainDifference) bool {
		return d.want == "" && slices.ContainsFunc(vmi.Spec.Domain.Devices.Interfaces, func(n v1.Interface) bool {
			return n.Binding != nil && (d.name == "interface "+n.Name || strings.HasSuffix(d.name, " of interface "+n.Name))
		})
	}},
}

// ignored are fields that the reference accepts and does not render.
const ignored = "`apic.endOfInterrupt`, `smm` that is off, CD-ROM serials, SR-IOV `acpiIndex`, boot order and link state with passt"

// emptyBootloader is the deviation of VMIs of arm64 that nothing gives a firmware.
const emptyBootloader = "An empty bootloader on arm64"

// withoutFirmware reports whether an error is that a VMI of arm64 has no firmware, and the reference's domain has none either.
func withoutFirmware(vmi *v1.VirtualMachineInstance, err *field.Error, want *libvirtxml.Domain) bool {
	firmware := vmi.Spec.Domain.Firmware
	chosen := firmware != nil && firmware.Bootloader != nil && *firmware.Bootloader != v1.Bootloader{}
	return vmi.Spec.Architecture == "arm64" && !chosen && err.Field == "spec.domain.firmware.bootloader.efi" &&
		want.OS != nil && want.OS.Loader == nil && want.OS.Firmware == ""
}

// usesRootBus reports whether the VMI wants its devices on the root bus.
func usesRootBus(vmi *v1.VirtualMachineInstance) bool {
	// KubeVirt's annotation kubevirt.io/placePCIDevicesOnRootComplex.
	return vmi.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true"
}

// mirrorsHostNUMA reports whether the VMI has the NUMA nodes of a host.
func mirrorsHostNUMA(vmi *v1.VirtualMachineInstance) bool {
	cpu := vmi.Spec.Domain.CPU
	return cpu != nil && cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil
}
