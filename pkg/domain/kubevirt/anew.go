package kubevirt

import (
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// PlacedAnew returns where the devices of a guest are if KubeVirt runs it and nothing keeps their places: libvirt assigns all PCI addresses anew at each start,
// and KubeVirt all names of disks. dom is the frontend of the guest. The result has PCI addresses, and of disks on SATA and SCSI the target name, from which
// libvirt takes controller and unit. It is nil for guests whose addresses are assigned otherwise: s390x, with placePCIDevicesOnRootComplex, and with a
// pciAddress.
//
// libvirt: src/qemu/qemu_domain_address.c (qemuDomainAssignPCIAddresses) and src/conf/domain_addr.c (virDomainPCIAddressSetGrow).
// KubeVirt: virtwrap/manager.go (allocateHotplugPorts) and converter.go (makeDeviceName).
func PlacedAnew(dom *libvirtxml.Domain, vmi *v1.VirtualMachineInstance) map[string]record.Address {
	if vmi.Spec.Architecture == "s390x" || vmi.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true" || len(Chosen(vmi)) > 0 {
		return nil
	}
	places, devices := map[string]record.Address{}, abi.Devices(dom)
	bus := make(buses, portsBefore(devices, dom.Memory, vmi))
	nameDisks(devices, places)
	asked := inLibvirtsOrder(devices, vmi, places)
	for _, d := range asked { // libvirt's first pass only counts buses
		bus.reserve(d.conventional, true)
	}
	bus.empty()
	for _, d := range asked {
		at := bus.reserve(d.conventional, false)
		if d.key != "" {
			places[d.key] = record.Address{PCI: at.String()}
		}
	}
	return places
}

// asking is a device that needs a PCI address of libvirt. The key is empty for a placeholder.
type asking struct {
	key          string
	conventional bool
}

// order are the kinds of devices in libvirt's order. Controllers come after sound cards, and disks after controllers.
var order = []string{"filesystem", "interface", "sound", "controller", "disk", "hostdev", "memballoon", "rng", "watchdog", "video", "input", "vsock"}

// controllerOrder are the types of controllers in the order in which KubeVirt writes them.
var controllerOrder = []string{"usb", "scsi", "virtio-serial", "sata"}

// interfaceSlots is the number of interfaces for which KubeVirt reserves places. It adds placeholders to a guest that has fewer.
const interfaceSlots = 4

// placeholders returns the number of placeholders that KubeVirt adds to the interfaces of a guest, for one definition of the domain. KubeVirt does not start a
// guest whose annotation is not a number.
func placeholders(vmi *v1.VirtualMachineInstance) int {
	n := len(vmi.Spec.Domain.Devices.Interfaces)
	if slots, err := strconv.Atoi(vmi.Annotations[v1.PciInterfaceSlotCountAnnotation]); err == nil {
		return min(max(0, slots-n), address.MaxPorts)
	}
	if n == 0 {
		return 0
	}
	return max(0, interfaceSlots-n)
}

// portsBefore returns the number of root ports that a domain has before libvirt assigns addresses. KubeVirt defines a domain with placeholders first, and adds
// empty root ports later. A domain without placeholders has no addresses yet when it gets them.
func portsBefore(devices []abi.Device, memory *libvirtxml.DomainMemory, vmi *v1.VirtualMachineInstance) int {
	if placeholders(vmi) > 0 {
		return 0
	}
	ports, free := 8, 3
	if memory != nil && memory.Unit == "KiB" && memory.Value > 2<<20 {
		ports, free = 16, 6
	}
	used := 0
	for _, d := range devices {
		switch {
		case d.Controller != nil && d.Controller.Type == "virtio-serial" && !hasSerialConsole(vmi), d.Controller != nil && d.Controller.Type == "sata":
		case d.Controller != nil && d.Controller.Type == "usb", d.Kind == "memballoon", d.Kind == "watchdog": // of any model
			used++
		case slices.Contains([]string{"interface", "controller", "disk", "hostdev", "rng", "input"}, d.Kind) && onPCI(d):
			used++
		}
	}
	return max(ports-used, free)
}

// hasSerialConsole reports whether KubeVirt renders a serial console, and with it the virtio-serial controller, which otherwise libvirt adds.
func hasSerialConsole(vmi *v1.VirtualMachineInstance) bool {
	return ptr.Deref(vmi.Spec.Domain.Devices.AutoattachSerialConsole, true)
}

// inLibvirtsOrder returns the devices that need an address, in libvirt's order. It adds the addresses that do not depend on other devices to places.
func inLibvirtsOrder(devices []abi.Device, vmi *v1.VirtualMachineInstance, places map[string]record.Address) []asking {
	byKind := map[string][]asking{}
	q35 := vmi.Spec.Architecture == "amd64"
	devices = slices.Clone(devices)
	slices.SortStableFunc(devices, func(a, b abi.Device) int { return rankOf(a, vmi) - rankOf(b, vmi) })
	for _, d := range devices {
		one := asking{key: d.Key(), conventional: isConventional(d, vmi)}
		switch {
		case !onPCI(d):
		case q35 && d.Kind == "video":
			places[one.key] = record.Address{PCI: address.PCI{Slot: 1}.String()}
		case q35 && d.Kind == "sound" && d.Model == "ich9":
			places[one.key] = record.Address{PCI: address.PCI{Slot: 0x1b}.String()}
		default:
			byKind[d.Kind] = append(byKind[d.Kind], one)
		}
	}
	transitional := ptr.Deref(vmi.Spec.Domain.Devices.UseVirtioTransitional, false)
	for range placeholders(vmi) {
		byKind["interface"] = append(byKind["interface"], asking{conventional: transitional})
	}
	var all []asking
	for _, kind := range order {
		all = append(all, byKind[kind]...)
	}
	return all
}

// isConventional reports whether a device goes behind a bridge. The virtio-serial controller that libvirt adds is not transitional.
func isConventional(d abi.Device, vmi *v1.VirtualMachineInstance) bool {
	if d.Controller != nil && d.Controller.Type == "virtio-serial" && !hasSerialConsole(vmi) {
		return false
	}
	return abi.Conventional(d.Model) && d.Model != "bochs" || d.Model == "virtio-transitional"
}

// rankOf returns the place of a device among the devices of its kind, if KubeVirt writes them in another order than the frontend has them: controllers by type,
// and the host devices of interfaces last.
func rankOf(d abi.Device, vmi *v1.VirtualMachineInstance) int {
	switch {
	case d.Controller != nil:
		return slices.Index(controllerOrder, d.Controller.Type) + 1
	case d.Hostdev != nil && slices.ContainsFunc(vmi.Spec.Domain.Devices.Interfaces, func(i v1.Interface) bool { return i.Name == d.Name }):
		return 1
	}
	return 0
}

// onPCI reports whether libvirt gives a device a PCI address.
func onPCI(d abi.Device) bool {
	switch d.Kind {
	case "filesystem", "interface", "rng", "vsock", "sound":
		return true
	case "disk":
		return hardware.Bus(d.Bus).Address == hardware.OnPCI
	case "controller":
		return slices.Contains(controllerOrder, d.Controller.Type) && d.Model != "none" && d.Key() != record.ControllerKey("sata", 0)
	case "hostdev":
		return d.Hostdev.SubsysPCI != nil || d.Hostdev.SubsysMDev != nil
	case "memballoon":
		return d.Model != "none"
	case "watchdog":
		return abi.Conventional(d.Model)
	case "video":
		return d.Model != "ramfb"
	case "input":
		return d.Bus == "virtio"
	}
	return false
}

// buses are the PCI buses that libvirt adds to a guest: bus n is at n-1. A conventional device needs a bridge, and the first bridge needs a port that nothing
// else gets.
type buses []pciBus

type pciBus struct {
	bridge bool
	// forBridge is a port that only a bridge gets.
	forBridge bool
	used      uint
}

// bridgeSlots is the number of slots of a bridge.
const bridgeSlots = 31

// empty takes the devices away after libvirt's first pass. In the second pass libvirt places the bridge first.
func (b *buses) empty() {
	bridged := false
	for i := range *b {
		(*b)[i].used, (*b)[i].forBridge = 0, false
		bridged = bridged || (*b)[i].bridge
	}
	if bridged {
		b.reserve(false, false)
	}
}

// reserve returns the first free place. With grow, it adds buses if all are taken.
func (b *buses) reserve(conventional, grow bool) address.PCI {
	for i := range *b {
		bus := &(*b)[i]
		free := !bus.forBridge && bus.bridge == conventional && (bus.used == 0 || bus.bridge && bus.used < bridgeSlots)
		if !free {
			continue
		}
		bus.used++
		at := address.PCI{Bus: uint(i) + 1}
		if bus.bridge {
			at.Slot = bus.used
		}
		return at
	}
	if !grow {
		return address.PCI{}
	}
	switch {
	case !conventional:
		*b = append(*b, pciBus{})
	case !slices.ContainsFunc(*b, func(bus pciBus) bool { return bus.bridge }):
		*b = append(*b, pciBus{forBridge: true}, pciBus{bridge: true})
	default:
		*b = append(*b, pciBus{bridge: true})
	}
	return b.reserve(conventional, false)
}

// nameDisks adds the names of disks on buses whose addresses follow from the name. Disks on SATA, SCSI and USB share their names.
func nameDisks(devices []abi.Device, places map[string]record.Address) {
	n := uint(0)
	for _, d := range devices {
		if d.Kind != "disk" || hardware.Bus(d.Bus).Address == hardware.OnPCI {
			continue
		}
		if d.Bus != "usb" {
			places[d.Key()] = record.Address{Target: "sd" + address.Letters(n)}
		}
		n++
	}
}
