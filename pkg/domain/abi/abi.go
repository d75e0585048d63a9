// Package abi holds what a guest must find again at every boot: the frozen record of its frontend, the projection of a
// domain on what the guest sees, its digest, and the difference of two.
package abi

import (
	"crypto/sha256"
	"encoding/hex"

	"libvirt.org/go/libvirtxml"
)

// Ignition is the name under which a guest finds the configuration of its first boot, in /sys/firmware/qemu_fw_cfg/by_name.
const Ignition = "opt/com.coreos/config"

// Record is the frozen frontend of a guest: what later boots reproduce. It is stored as compact JSON. A removed device
// leaves the record with the next boot, and its place is free for new ones.
type Record struct {
	// Defaults is the version of the FrontendDefaults that made it.
	Defaults string `json:"defaults"`
	// Digest is that of the projection, see Digest.
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
	// Devices maps each device's key, see Device, to its address.
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

// Digest is 'sha256:' and the hex digest of the projection of a domain, frontend or complete.
func Digest(dom *libvirtxml.Domain) string {
	sum := sha256.Sum256(canonical(make([]byte, 0, usualSize), Project(dom)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Same tells whether a guest sees the same of two domains: whether their digests are equal.
func Same(a, b *libvirtxml.Domain) bool {
	// Domains of one origin keep the order of devices, so that mostly there is nothing to sort and no text to write.
	return same(platformSeen(a), platformSeen(b)) && sameDevices(a.Devices, b.Devices) || Digest(a) == Digest(b)
}
