package virtcontroller

import (
	"strings"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// Recorded PCI addresses of guests that KubeVirt runs without Kiln's hook. pciAddress of virtio disks and interfaces is all that KubeVirt's API can pin.
// libvirt places the other devices around them.
// KubeVirt: pkg/virt-launcher/virtwrap/converter/converter.go, converter/network/configurator.go and converter/pci-placement.go, v1.9.

// highestBus is the highest bus whose recorded address is used. libvirt adds root ports up to the bus of an address, and fails where the root bus has no more
// slots: it defines no guest with an address on bus fe. With 128 buses half of the root bus remains for the other devices.
const highestBus = 0x7f

// KeepAddresses sets pciAddress of the virtio disks of an explicit VMI, and with interfaces also of its virtio interfaces, to the recorded address. Fields
// that are set stay. It leaves out each address that libvirt might refuse, or behind whose root port the guest would not find the device again. The record must
// have passed record.Check.
func KeepAddresses(vmi *v1.VirtualMachineInstance, frozen *record.Record, interfaces bool) {
	if !hasFreePorts(vmi) {
		return
	}
	devices := &vmi.Spec.Domain.Devices
	ports := recordedPorts(frozen)
	for i := range devices.Interfaces {
		ports.remove(devices.Interfaces[i].PciAddress)
	}
	for i := range devices.Disks {
		if disk := devices.Disks[i].Disk; disk != nil {
			ports.remove(disk.PciAddress)
		}
	}
	for i := range devices.Disks {
		if disk := &devices.Disks[i]; isPlaceable(vmi, disk) && disk.Disk.PciAddress == "" {
			disk.Disk.PciAddress = ports[record.Key("disk", disk.Name)]
		}
	}
	for i := range devices.Interfaces {
		if nic := &devices.Interfaces[i]; interfaces && isVirtio(nic) && nic.PciAddress == "" {
			nic.PciAddress = ports[record.Key("interface", nic.Name)]
		}
	}
}

// hasFreePorts reports whether libvirt alone makes the root ports of a VMI, and puts virtio devices behind them.
func hasFreePorts(vmi *v1.VirtualMachineInstance) bool {
	spec, devices, machine := &vmi.Spec, &vmi.Spec.Domain.Devices, ""
	if spec.Domain.Machine != nil {
		machine = spec.Domain.Machine.Type
	}
	switch {
	case spec.Architecture == "amd64" && !strings.Contains(machine, "q35") || spec.Architecture == "arm64" && !strings.HasPrefix(machine, "virt"):
		return false // as KubeVirt's SupportsPCIeHotplug
	case spec.Architecture != "amd64" && spec.Architecture != "arm64":
		return false
	case vmi.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true": // it has none
		return false
	case devices.UseVirtioTransitional != nil && *devices.UseVirtioTransitional: // conventional devices, behind a bridge
		return false
	}
	return !followsNUMA(spec)
}

// followsNUMA reports whether KubeVirt may give a guest expander buses. It numbers them from 1 on, as libvirt does the root ports.
func followsNUMA(spec *v1.VirtualMachineInstanceSpec) bool {
	hostDevices := len(spec.Domain.Devices.GPUs) + len(spec.Domain.Devices.HostDevices)
	for i := range spec.Domain.Devices.Interfaces {
		if spec.Domain.Devices.Interfaces[i].SRIOV != nil {
			hostDevices++
		}
	}
	return hostDevices > 0 && spec.Domain.CPU != nil && spec.Domain.CPU.DedicatedCPUPlacement
}

// isPlaceable reports whether a disk is on PCI from the start of the guest on. Virt-launcher refuses a pciAddress on other buses than those of PCI, and plugs
// hotpluggable volumes in later: libvirt may have given their place to another device by then.
func isPlaceable(vmi *v1.VirtualMachineInstance, disk *v1.Disk) bool {
	if disk.Disk == nil || hardware.Bus(disk.Disk.Bus).Address != hardware.OnPCI {
		return false
	}
	for i := range vmi.Spec.Volumes {
		if volume := &vmi.Spec.Volumes[i]; volume.Name == disk.Name {
			return !isHotpluggable(volume)
		}
	}
	return false
}

func isHotpluggable(volume *v1.Volume) bool {
	return volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.Hotpluggable || volume.DataVolume != nil && volume.DataVolume.Hotpluggable
}

// isVirtio reports whether an interface is a virtio device that KubeVirt's converter makes. A binding plugin makes its own. With a pciAddress, KubeVirt does
// not put an SR-IOV device next to its NUMA node, and may refuse to start the guest for it.
func isVirtio(nic *v1.Interface) bool {
	return hardware.Model(nic.Model).Virtio && nic.SRIOV == nil && nic.Binding == nil && nic.State != v1.InterfaceStateAbsent
}

// portAddresses are the addresses behind root ports, by the key of the device.
type portAddresses map[string]string

// remove takes out the device on the bus of an address, which may be empty.
func (p portAddresses) remove(pin string) {
	at, err := address.ParsePCI(pin)
	if err != nil {
		return
	}
	for key, text := range p {
		if other, _ := address.ParsePCI(text); other.Bus == at.Bus {
			delete(p, key)
		}
	}
}

// recordedPorts returns the recorded addresses that libvirt can give again, by the key of the device. For an address on bus n libvirt makes root ports 1 to n,
// one function after the other, and adds bridges afterwards. So from the first number on that was no root port, or was elsewhere, the guest would find another
// port above the device.
func recordedPorts(frozen *record.Record) portAddresses {
	last := uint(0)
	first, err := address.ParsePCI(frozen.Devices[record.ControllerKey("pci", 1)].PCI)
	for ; err == nil && last < highestBus; last++ {
		port := frozen.Devices[record.ControllerKey("pci", last+1)]
		want := address.PCI{Slot: first.Slot + last/8, Function: last % 8}
		if port.PCI != want.String() || port.Expander != "" {
			break
		}
	}
	out, keys := portAddresses{}, map[uint]string{}
	for key, a := range frozen.Devices {
		at, err := address.ParsePCI(a.PCI)
		if err != nil || at.Bus == 0 || at.Bus > last || at.Slot > 0 || at.Function > 0 {
			continue
		}
		if other, shared := keys[at.Bus]; shared { // nobody knows which of them was there
			delete(out, other)
			continue
		}
		keys[at.Bus], out[key] = key, at.String()
	}
	return out
}
