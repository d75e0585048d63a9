package record

import (
	"errors"
	"slices"
	"strings"
)

// A guest that another program made lacks some devices and settings that Kiln gives to each guest. The record names them in omittedDefaults, and later boots
// do not add them. An entry only takes a default away, and never one that protects the guest or its host.

// Entries of omittedDefaults that name a device: the guest does not have it.
const (
	OmittedGuestAgent   = "channel.guest-agent"
	OmittedSCSI         = controller + ".scsi.0"
	OmittedVirtioSerial = controller + ".virtio-serial.0"
	OmittedUSB          = controller + ".usb.0"
)

// Entries of omittedDefaults that name a setting.
const (
	// OmittedFreePageReporting means that the memory balloon does not report free pages.
	OmittedFreePageReporting = "memballoon.balloon/freePageReporting"
	// OmittedUSBOnDemand means that the guest has a USB controller although no device needs it.
	OmittedUSBOnDemand = OmittedUSB + "/onDemand"
	// OmittedUSBPorts means that the USB controller has QEMU's number of ports, which is 4.
	OmittedUSBPorts = OmittedUSB + "/ports"
	// OmittedVMPort means that the guest finds VMware's backdoor port if QEMU's machine has it.
	OmittedVMPort = "features/vmport"
	// OmittedSuspendToMemory and OmittedSuspendToDisk mean that the firmware does not offer the sleep states S3 and S4.
	OmittedSuspendToMemory = "pm/suspend-to-mem"
	OmittedSuspendToDisk   = "pm/suspend-to-disk"
	// OmittedSMBIOS means that the strings of the DMI table are QEMU's.
	OmittedSMBIOS = "smbios"
)

// redirectors begins the keys of the devices by which a client passes USB devices, such as redirdev.usbredir-0. clientPassthrough gives each guest four.
const redirectors = "redirdev."

// Endings of entries that name a setting of a device.
const (
	romOff     = "/rom"
	hotplugOff = "/hotplug"
)

// mostOmitted is more than the interfaces and PCI controllers of a guest.
const mostOmitted = 2 * 256

// OmittedROM returns the entry for an interface whose boot ROM is on.
func OmittedROM(iface string) string { return Key("interface", iface) + romOff }

// OmittedHotplug returns the entry for a PCIe root port whose device the guest may eject.
func OmittedHotplug(port uint) string { return ControllerKey("pci", port) + hotplugOff }

// OmitsROM is Omits for OmittedROM. It allocates nothing for a record without omitted defaults.
func OmitsROM(r *Record, iface string) bool {
	return r != nil && len(r.OmittedDefaults) > 0 && Omits(r, OmittedROM(iface))
}

// OmitsHotplug is Omits for OmittedHotplug. It allocates nothing for a record without omitted defaults.
func OmitsHotplug(r *Record, port uint) bool {
	return r != nil && len(r.OmittedDefaults) > 0 && Omits(r, OmittedHotplug(port))
}

// Omits reports whether a record has an entry in omittedDefaults. It returns false for a nil record. Stage 2 asks only for what it would add.
func Omits(r *Record, entry string) bool {
	return r != nil && len(r.OmittedDefaults) > 0 && slices.Contains(r.OmittedDefaults, entry)
}

// KeepOmitted returns the entries of an earlier record that still count for the hardware of a boot. An entry about a device that the guest has got since
// does not count, nor an entry about a setting of a device that is gone. An interface that the owner adds later under an old name gets all defaults.
func KeepOmitted(earlier, now *Record) (kept []string) {
	for _, entry := range earlier.OmittedDefaults {
		device, _, ofDevice := strings.Cut(entry, "/")
		_, has := now.Devices[device]
		counts := has // the entry is about a setting of a device
		switch {
		case entry == OmittedSMBIOS:
			counts = now.Serial == "" && len(now.SMBIOS)+len(now.BIOS) == 0
		case strings.HasPrefix(entry, "features/"), strings.HasPrefix(entry, "pm/"):
			counts = true
		case !ofDevice:
			counts = !has
		}
		if counts {
			kept = append(kept, entry)
		}
	}
	return kept
}

// IsDeviceSetting reports whether an entry is a setting of a device that the guest has.
func IsDeviceSetting(entry string) bool {
	device, _, ofDevice := strings.Cut(entry, "/")
	kind, name := SplitKey(device)
	return ofDevice && kind != "" && name != ""
}

// checkOmitted adds findings about entries that no import writes.
func checkOmitted(entries []string, f *findings) {
	if len(entries) > mostOmitted {
		f.addFinding("omittedDefaults", len(entries), errors.New("must have at most 512 entries"))
		return
	}
	for i, entry := range entries {
		f.addFinding("omittedDefaults", entry, checkOmittedEntry(entry))
		if i > 0 && entries[i-1] >= entry {
			f.addFinding("omittedDefaults", entry, errors.New("must be sorted, each entry once"))
		}
	}
}

func checkOmittedEntry(entry string) error {
	switch entry {
	case OmittedGuestAgent, OmittedSCSI, OmittedVirtioSerial, OmittedUSB, OmittedUSBOnDemand, OmittedUSBPorts, OmittedFreePageReporting, OmittedVMPort,
		OmittedSuspendToMemory, OmittedSuspendToDisk, OmittedSMBIOS:
		return nil
	}
	if strings.HasPrefix(entry, redirectors) && checkDeviceName(entry[len(redirectors):], "") == nil {
		return nil
	}
	if key, isROM := strings.CutSuffix(entry, romOff); isROM {
		kind, name := SplitKey(key)
		if kind == "interface" && checkDeviceName(name, "") == nil {
			return nil
		}
	}
	if key, isPort := strings.CutSuffix(entry, hotplugOff); isPort {
		if _, ok := Port(key); ok {
			return nil
		}
	}
	return errors.New("must be a default that a guest can do without, such as 'channel.guest-agent' or 'interface.default/rom'")
}
