package hardware

import (
	"slices"

	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.disks[]: bus of disk, lun and cdrom.

// Targets are the kinds of drives, by their fields in disks[].
const (
	Disk  = "disk"
	LUN   = "lun"
	CDROM = "cdrom"
)

// Address is the kind of address that a drive has, by its field in the addresses of a hardware record.
type Address string

const (
	// OnPCI means that the drive is a PCI device, or a channel device on s390x.
	OnPCI Address = "pci"
	// OnController means that the drive is a unit of a controller which has drives only.
	OnController Address = "drive"
	// OnUSB means that the drive has a port of a USB controller, like any USB device.
	OnUSB Address = "usb"
)

// DiskBus describes a disk bus. The zero value stands for a bus that Kiln does not support.
type DiskBus struct {
	// Name is the bus in the API and in libvirt. Controllers of the bus have it as their type.
	Name v1.DiskBus
	// Architectures are those whose machines have the bus and whose firmware boots from it.
	Architectures []string
	// Targets are the kinds of drives that the bus supports.
	Targets []string
	// Prefix is how libvirt's names of the drives begin: vda begins with vd. Buses may share a prefix. The guest does not see these names, but libvirt sorts
	// drives by them, and its ABI check compares them.
	Prefix  string
	Address Address
	// Controller is nil unless the drives are OnController.
	Controller *Controller
	// Virtio means that QEMU has the drive as a virtio device, whose model, queues and IOMMU the VMI decides.
	Virtio bool
	// IOThreads means that QEMU can serve the drive in a separate thread.
	IOThreads bool
	// Hotplug means that a guest gets and loses a drive while it runs.
	Hotplug bool
	// ReadOnlyDisks means that a disk can be read-only. CD-ROMs can on each bus.
	ReadOnlyDisks bool
	// BlockSize is the only logical block size in bytes; 0 if the bus allows several.
	BlockSize uint
	// ShownSerial is how many bytes of a serial number the guest sees.
	ShownSerial int
	// Libvirt and QEMU are the first versions that have the bus; empty if all have that Kiln supports.
	Libvirt, QEMU string
}

// Controller describes the controllers that drives are attached to.
type Controller struct {
	// Units is how many drives a controller has.
	Units uint
	// Model is libvirt's model on s390x, and empty for a controller that is not a virtio device. On PCI the VMI decides the model of a virtio device.
	Model string
	// OnRootBus means that controllers are on the root bus. Others are behind root ports.
	OnRootBus bool
	// Chipset is the alias of the machine type whose chipset has the first controller, at a slot and function of the root bus; empty without one.
	Chipset        string
	Slot, Function uint
}

// DiskBuses are all disk buses. PortableBuses keeps their order.
var DiskBuses = []*DiskBus{
	{
		Name:          v1.DiskBusVirtio,
		Architectures: Architectures,
		Targets:       []string{Disk}, // QEMU has no virtio CD-ROM, and ends if a LUN is a virtio-blk device ("Please set scsi=off")
		Prefix:        "vd",
		Address:       OnPCI,
		Virtio:        true,
		IOThreads:     true,
		Hotplug:       true,
		ReadOnlyDisks: true,
		ShownSerial:   20, // VIRTIO_BLK_ID_BYTES
	},
	{
		Name:          v1.DiskBusSCSI,
		Architectures: Architectures,
		Targets:       []string{Disk, LUN, CDROM},
		Prefix:        "sd",
		Address:       OnController,
		Controller:    &Controller{Units: 256, Model: "virtio-scsi"}, // with more LUNs Linux needs another way to list them
		Hotplug:       true,
		ReadOnlyDisks: true,
		ShownSerial:   36, // scsi-disk cuts
	},
	{
		Name:          v1.DiskBusSATA,
		Architectures: []string{amd64},       // the machines of the others have no AHCI controller
		Targets:       []string{Disk, CDROM}, // libvirt has no LUN on it
		Prefix:        "sd",
		Address:       OnController,
		// The AHCI controller of ICH9.
		Controller: &Controller{Units: 6, OnRootBus: true, Chipset: "q35", Slot: 0x1f, Function: 2},
		// QEMU, hw/ide: ide-hd and ide-cd refuse other sizes, and ide-hd cannot be read-only.
		BlockSize:   512,
		ShownSerial: 20, // of ATA's IDENTIFY DEVICE
	},
	{
		Name:          v1.DiskBusUSB,
		Architectures: []string{amd64},       // the firmware of arm64 does not boot from it; s390x has none
		Targets:       []string{Disk, CDROM}, // libvirt has no LUN on it
		Prefix:        "sd",
		Address:       OnUSB,
		ReadOnlyDisks: true,
		ShownSerial:   36, // scsi-disk is behind usb-storage
	},
}

var unknownBus = &DiskBus{}

// Bus returns the bus with a name, and the zero value for other names. Nothing may write to it.
func Bus[T ~string](name T) *DiskBus {
	for _, b := range DiskBuses {
		if b.Name == v1.DiskBus(name) {
			return b
		}
	}
	return unknownBus
}

// Known reports whether Kiln has the bus.
func (b *DiskBus) Known() bool { return b.Name != "" }

// On reports whether guests of an architecture can have the bus. It returns true for each known bus if the architecture is unknown.
func (b *DiskBus) On(architecture string) bool {
	return b.Known() && isOn(b.Architectures, architecture)
}

// Has reports whether a drive on the bus can be a disk, lun or cdrom.
func (b *DiskBus) Has(target string) bool { return slices.Contains(b.Targets, target) }

// BusNames returns the names of the buses that match, in alphabetical order.
func BusNames(match func(*DiskBus) bool) (names []v1.DiskBus) {
	for _, b := range DiskBuses {
		if match(b) {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	return names
}

// BusesFor returns the names of the buses on which a guest of an architecture can have a disk, lun or cdrom, in alphabetical order.
func BusesFor(architecture, target string) []v1.DiskBus {
	return BusNames(func(b *DiskBus) bool { return b.On(architecture) && b.Has(target) })
}

// PortableBuses returns the names of the buses on which guests of every architecture can have a disk, lun or cdrom, in the order of DiskBuses.
func PortableBuses(target string) (names []v1.DiskBus) {
	for _, b := range DiskBuses {
		if b.Has(target) && !slices.ContainsFunc(Architectures, func(architecture string) bool { return !b.On(architecture) }) {
			names = append(names, b.Name)
		}
	}
	return names
}

// DiskPrefixes are the prefixes of all buses.
var DiskPrefixes = func() (prefixes []string) {
	for _, b := range DiskBuses {
		if !slices.Contains(prefixes, b.Prefix) {
			prefixes = append(prefixes, b.Prefix)
		}
	}
	return prefixes
}()

// MostUnits is the most drives that a controller of any bus has.
var MostUnits = func() (most uint) {
	for _, b := range DiskBuses {
		if b.Controller != nil {
			most = max(most, b.Controller.Units)
		}
	}
	return most
}()

// isOn reports whether one of some architectures is given, or none that is known.
func isOn(architectures []string, architecture string) bool {
	return slices.Contains(architectures, architecture) || !slices.Contains(Architectures, architecture)
}
