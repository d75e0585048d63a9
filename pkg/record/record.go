// Package record holds the hardware record of a guest: what later boots find again. It reads stored records as hostile input and compares
// two of them. It knows no libvirt XML: pkg/domain/abi makes records of domains.
package record

import "strings"

// Record is the frozen frontend of a guest: what later boots reproduce. It is stored as compact JSON. A removed device
// leaves the record with the next boot, and its place is free for new ones.
type Record struct {
	// Defaults is the version of the FrontendDefaults that made it.
	Defaults string `json:"defaults"`
	// Digest is that of the projection, see abi.Digest.
	Digest string `json:"digest"`
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
	// Machine is the versioned machine type, e.g. pc-q35-7.2, where an alias could be resolved.
	Machine string `json:"machine,omitempty"`
	// SMBIOS are the system strings of the DMI table by libvirt's names, without uuid and serial.
	SMBIOS map[string]string `json:"smbios,omitempty"`
	// GenerationID tells whether the guest is told of its restorations. The ID itself is another one after each.
	GenerationID bool `json:"generationID,omitempty"`
	// Video is the model of the video adapter.
	Video string `json:"video,omitempty"`
	// FreePorts is the number of root ports without a device.
	FreePorts int `json:"freePorts,omitempty"`
	// VSOCK is the context identifier on the host's vsock.
	VSOCK string `json:"vsock,omitempty"`
	// TSC is the frequency of the time stamp counter in Hz.
	TSC uint64 `json:"tsc,omitempty"`
	// NUMA are the guest's cells in their order, where they mirror those of a host.
	NUMA []Cell `json:"numa,omitempty"`
	// BlockSizes by disk name, of disks that match a volume.
	BlockSizes map[string]BlockSize `json:"blockSizes,omitempty"`
	// MACs by interface name.
	MACs map[string]string `json:"macs,omitempty"`
	// Devices maps each device's key, see abi.Device, to its address.
	Devices map[string]Address `json:"devices,omitempty"`
}

// Address is one guest address by kind, and for disks the target name.
type Address struct {
	PCI    string `json:"pci,omitempty"`    // domain:bus:slot.function, hexadecimal
	Drive  string `json:"drive,omitempty"`  // controller:bus:target:unit, decimal
	USB    string `json:"usb,omitempty"`    // bus:port, decimal
	Serial string `json:"serial,omitempty"` // controller:bus:port, decimal
	CCW    string `json:"ccw,omitempty"`    // cssid.ssid.devno, hexadecimal
	Target string `json:"target,omitempty"` // disk target name, e.g. vda
	Index  *uint  `json:"index,omitempty"`  // controller index
	// Expander is, for an expander bus, its bus number and the guest's NUMA cell, decimal: 240:1; 240: where it has no cell.
	Expander string `json:"expander,omitempty"`
}

// BlockSize of a disk in bytes.
type BlockSize struct {
	Logical  uint `json:"logical"`
	Physical uint `json:"physical"`
	Discard  uint `json:"discard,omitempty"`
}

// Cell is one NUMA cell of a guest that mirrors the cells of the host of its first boot.
type Cell struct {
	// CPUs of the guest, those to be added later included, in Linux' list format: 0-3,8-11.
	CPUs      string `json:"cpus"`
	MemoryKiB uint64 `json:"memoryKiB"`
	// Distances to each cell in their order, 10 to itself; empty where the host told none.
	Distances []uint `json:"distances,omitempty"`
}

// String is the address for people.
func (a Address) String() string {
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
