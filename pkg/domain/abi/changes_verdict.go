package abi

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// identityOf returns what a guest, its drivers and its configuration files recognize a device by, besides its address: model, bus, serial, MAC. Queues, boot
// order and read-only are not among them, because a guest finds the device when they change. The size of a disk's logical blocks is, because partition tables
// and file systems count in such blocks.
func identityOf(d Device) string {
	parts := []string{"model=" + d.Model, "bus=" + d.Bus}
	switch {
	case d.Disk != nil:
		parts = append(parts, "type="+d.Disk.Device, "serial="+d.Disk.Serial, "WWN="+d.Disk.WWN, "logical block size="+logicalBlockSize(d.Disk))
	case d.Controller != nil:
		number, _, _ := strings.Cut(formatExpander(d.Controller), ":")
		parts = append(parts, "number="+number)
	case d.Interface != nil && d.Interface.MAC != nil:
		parts = append(parts, "MAC="+d.Interface.MAC.Address)
	}
	return strings.Join(parts, "\n")
}

// logicalBlockSize is in bytes. QEMU's default is 512.
func logicalBlockSize(d *libvirtxml.DomainDisk) string {
	if d.BlockIO == nil || d.BlockIO.LogicalBlockSize == 0 {
		return "512"
	}
	return strconv.FormatUint(uint64(d.BlockIO.LogicalBlockSize), 10)
}

// differingIdentity lists the parts of two identities that differ, with both values. It leaves out a model that exists only on one of two buses, because the
// bus says it.
func differingIdentity(before, after string) string {
	var words []string
	was, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i, part := range was {
		if i >= len(now) || part == now[i] || i == 0 && was[1] != now[1] && (part == "model=" || now[0] == "model=") {
			continue
		}
		name, old, _ := strings.Cut(part, "=")
		_, new, _ := strings.Cut(now[i], "=")
		words = append(words, fmt.Sprintf(" its %s from %s to %s", name, quoteOrNone(old), quoteOrNone(new)))
	}
	return strings.Join(words, ",")
}

// platformOS is the part of <os> whose change breaks the guest's hardware: machine type and class of firmware.
func platformOS(d *libvirtxml.Domain) *libvirtxml.DomainOS {
	if d.OS == nil {
		return nil
	}
	return &libvirtxml.DomainOS{Type: d.OS.Type, Firmware: d.OS.Firmware, FirmwareInfo: d.OS.FirmwareInfo, ACPI: d.OS.ACPI, SMBios: d.OS.SMBios}
}

// bootOS is the rest of <os>: boot devices, boot menu and kernel arguments, which an owner may change.
func bootOS(d *libvirtxml.Domain) *libvirtxml.DomainOS {
	if d.OS == nil {
		return nil
	}
	boot := *d.OS
	boot.Type, boot.Firmware, boot.FirmwareInfo, boot.ACPI, boot.SMBios = nil, "", nil, nil, nil
	return &boot
}

func topologyOf(d *libvirtxml.Domain) *libvirtxml.DomainCPUTopology {
	if d.CPU == nil {
		return nil
	}
	return d.CPU.Topology
}

func topologyWords(d *libvirtxml.Domain) string {
	t := topologyOf(d)
	if t == nil {
		return "none"
	}
	return fmt.Sprintf("%d sockets, %d cores, %d threads", t.Sockets, t.Cores, t.Threads)
}

// modelOf is the named model, else the mode such as host-model; empty without a CPU.
func modelOf(d *libvirtxml.Domain) string {
	if d.CPU == nil || d.CPU.Model == nil {
		return cpuMode(d)
	}
	return d.CPU.Model.Value
}

func cpuMode(d *libvirtxml.Domain) string {
	if d.CPU == nil {
		return ""
	}
	return d.CPU.Mode
}

// vcpusOf is the number of vCPUs at boot.
func vcpusOf(d *libvirtxml.Domain) string {
	if d.VCPU == nil {
		return "0"
	}
	return fmt.Sprint(cmp.Or(d.VCPU.Current, d.VCPU.Value))
}
