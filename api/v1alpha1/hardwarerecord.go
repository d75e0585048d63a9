package v1alpha1

import (
	"encoding/json"
	"strings"
)

// HardwareRecord is the hardware that a guest found at its first boot and finds again at later boots: the frozen frontend. A removed device leaves the hardware
// record at the next boot, and its address is then free for new devices.
//
// A later version of Kiln may add fields, and sets schemaVersion then. An earlier version keeps the fields that it does not know: docs/project/adr/0028.
// +kubebuilder:pruning:PreserveUnknownFields
type HardwareRecord struct {
	// schemaVersion is the version of the fields of this hardware record. Absent means 1. A version of Kiln that knows a lower number boots the guest with the
	// known fields, and keeps the others and this number.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	SchemaVersion int32 `json:"schemaVersion,omitempty"`
	// defaults is the version of the FrontendDefaults of the hardware record: the name of a FrontendProfile, such as v3, or the number of Kiln's own values.
	Defaults string `json:"defaults"`
	// digest is the digest of all hardware that the guest sees.
	Digest string `json:"digest"`
	// uuid is the firmware UUID, in the 36 characters of RFC 9562.
	UUID string `json:"uuid,omitempty"`
	// serial is the serial number in the DMI table.
	Serial string `json:"serial,omitempty"`
	// machine is the versioned machine type, such as pc-q35-7.2, if an alias could be resolved.
	Machine string `json:"machine,omitempty"`
	// smbios are the system strings of the DMI table by libvirt's names, without uuid and serial.
	SMBIOS map[string]string `json:"smbios,omitempty"`
	// bios are the strings of the BIOS in the DMI table by libvirt's names: vendor, version, date, release. Absent if the firmware writes its own strings.
	BIOS map[string]string `json:"bios,omitempty"`
	// generationID reports whether the guest sees a VM Generation ID device. The ID itself changes with each restore.
	GenerationID bool `json:"generationID,omitempty"`
	// bootDisk is the name of the disk that the firmware boots if no device of the VM sets bootOrder; absent if the firmware tried another device first.
	BootDisk string `json:"bootDisk,omitempty"`
	// firmware is the file name of the build of EFI firmware, such as OVMF_CODE_4M.fd; none if the guest has no EFI firmware; absent if no boot has recorded it.
	Firmware string `json:"firmware,omitempty"`
	// video is the model of the video adapter.
	Video string `json:"video,omitempty"`
	// usb is the model of the USB controllers, unless it is qemu-xhci.
	USB string `json:"usb,omitempty"`
	// deflateOnOOM reports whether the guest takes memory back from the balloon before it kills a process.
	DeflateOnOOM bool `json:"deflateOnOOM,omitempty"`
	// freePorts is the number of PCIe root ports without a device.
	FreePorts int `json:"freePorts,omitempty"`
	// cpu is the CPU; absent if no boot has recorded it.
	CPU *GuestCPU `json:"cpu,omitempty"`
	// vsock is the context identifier on the host's vsock.
	VSOCK string `json:"vsock,omitempty"`
	// tsc is the frequency of the time stamp counter in Hz.
	TSC uint64 `json:"tsc,omitempty"`
	// numa are the guest's NUMA nodes in their order, if they mirror the NUMA nodes of a host.
	// +listType=atomic
	NUMA []GuestNUMANode `json:"numa,omitempty"`
	// blockSizes by disk name, of disks that match a volume.
	BlockSizes map[string]GuestBlockSize `json:"blockSizes,omitempty"`
	// macs by interface name.
	MACs map[string]string `json:"macs,omitempty"`
	// devices maps each device's key, its kind and name such as 'disk.root', to its address.
	Devices map[string]GuestAddress `json:"devices,omitempty"`
	// omittedDefaults are devices and settings that Kiln gives to each guest, except to this one, sorted: another program made its machine, without them. An
	// entry is the key of a device such as 'channel.guest-agent', a setting of a device such as 'interface.default/rom', 'features/vmport' or 'smbios'.
	// +listType=atomic
	OmittedDefaults []string `json:"omittedDefaults,omitempty"`

	// Unknown contains the fields of the JSON object that this version of Kiln does not know.
	Unknown map[string]json.RawMessage `json:"-"`
}

// GuestAddress is the address of a device by kind, and for disks the target name.
type GuestAddress struct {
	// pci is domain:bus:slot.function, hexadecimal.
	PCI string `json:"pci,omitempty"`
	// drive is controller:bus:target:unit, decimal.
	Drive string `json:"drive,omitempty"`
	// usb is bus:port, decimal.
	USB string `json:"usb,omitempty"`
	// serial is controller:bus:port, decimal.
	Serial string `json:"serial,omitempty"`
	// ccw is cssid.ssid.devno, hexadecimal.
	CCW string `json:"ccw,omitempty"`
	// target is the name of a disk, such as vda.
	Target string `json:"target,omitempty"`
	// index is the index of a controller.
	Index *uint `json:"index,omitempty"`
	// expander is the bus number of an expander bus and the guest's NUMA node, decimal: 240:1, or 240: without a node.
	Expander string `json:"expander,omitempty"`
}

// GuestBlockSize contains the block sizes of a disk, in bytes.
type GuestBlockSize struct {
	// logical is the logical block size in bytes.
	Logical uint `json:"logical"`
	// physical is the physical block size in bytes.
	Physical uint `json:"physical"`
	// discard is the granularity of discards in bytes; absent if the guest finds no granularity.
	Discard uint `json:"discard,omitempty"`
}

// GuestNUMANode is a NUMA node of a guest that mirrors the NUMA nodes of the host of its first boot.
type GuestNUMANode struct {
	// cpus of the guest, including CPUs that may be added later, in Linux' list format: 0-3,8-11.
	CPUs string `json:"cpus"`
	// memoryKiB is the memory of the node in KiB.
	MemoryKiB uint64 `json:"memoryKiB"`
	// distances to each node in their order, 10 to itself; empty if the host reported no distances.
	// +listType=atomic
	Distances []uint `json:"distances,omitempty"`
}

// String returns the address for messages.
func (a GuestAddress) String() string {
	text := a.PCI + a.Drive + a.USB + a.Serial + a.CCW
	if number, _, _ := strings.Cut(a.Expander, ":"); number != "" {
		text += " with bus number " + number
	}
	if a.Target != "" && text != "" {
		return a.Target + " at " + text
	}
	if text == "" && a.Target == "" {
		return "no address"
	}
	return text + a.Target
}
