package render

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// omittedVersion is the schemaVersion that added omittedDefaults.
const omittedVersion = 3

// setOmitted gives a record of a boot the omitted defaults of an earlier record that still count.
func setOmitted(frozen, earlier *record.Record) {
	if frozen.OmittedDefaults = record.KeepOmitted(earlier, frozen); len(frozen.OmittedDefaults) > 0 {
		frozen.SchemaVersion = max(frozen.SchemaVersion, omittedVersion)
	}
}

// omitDefaults adds to a record the defaults of Kiln that a domain of another program lacks, and returns the frontend of the next boot without them.
func omitDefaults(m Machine, vmi *v1.VirtualMachineInstance, captured *record.Record, seen, rendered *libvirtxml.Domain) (*libvirtxml.Domain, field.ErrorList) {
	captured.OmittedDefaults = omittedDefaults(seen, rendered)
	if len(captured.OmittedDefaults) == 0 {
		return rendered, nil
	}
	return renderWith(m, vmi, captured)
}

// omittedDefaults returns the defaults of Kiln that a domain of another program lacks, sorted. seen and rendered have the same names of devices.
func omittedDefaults(seen, rendered *libvirtxml.Domain) (entries []string) {
	have := map[string]abi.Device{}
	for _, device := range abi.Devices(seen) {
		have[device.Key()] = device
	}
	for _, device := range abi.Devices(rendered) {
		found, has := have[device.Key()]
		entries = append(entries, omittedOfDevice(found, device, has)...)
	}
	if usb, has := have[record.OmittedUSB]; has && frontend.HasUSBModel(usb.Model) {
		if lacksUSB(rendered) {
			entries = append(entries, record.OmittedUSBOnDemand)
		}
		if usb.Controller.USB == nil || usb.Controller.USB.Port == nil {
			entries = append(entries, record.OmittedUSBPorts)
		}
	}
	if rendered.Features != nil && rendered.Features.VMPort != nil && (seen.Features == nil || seen.Features.VMPort == nil) {
		entries = append(entries, record.OmittedVMPort)
	}
	if pm := seen.PM; pm != nil && pm.SuspendToMem != nil && pm.SuspendToMem.Enabled == "no" {
		entries = append(entries, record.OmittedSuspendToMemory)
	}
	if pm := seen.PM; pm != nil && pm.SuspendToDisk != nil && pm.SuspendToDisk.Enabled == "no" {
		entries = append(entries, record.OmittedSuspendToDisk)
	}
	if omitsSystemStrings(seen) {
		entries = append(entries, record.OmittedSMBIOS)
	}
	slices.Sort(entries)
	return entries
}

// ownDevices are the keys of the devices that no field of a VM asks for.
var ownDevices = []string{record.OmittedGuestAgent, record.OmittedSCSI, record.OmittedVirtioSerial, record.OmittedUSB}

// omittedOfDevice returns the defaults of one device. has is false if the domain does not have the device.
func omittedOfDevice(seen, rendered abi.Device, has bool) (entries []string) {
	key := rendered.Key()
	switch {
	case (!has || seen.Model == "none") && (slices.Contains(ownDevices, key) || rendered.Kind == "redirdev"):
		return []string{key}
	case !has:
		return nil
	case rendered.Interface != nil && rendered.Interface.ROM != nil && seen.Interface.ROM == nil:
		return []string{record.OmittedROM(rendered.Name)}
	case rendered.Controller != nil && isLocked(rendered.Controller) && !isLocked(seen.Controller):
		return []string{record.OmittedHotplug(*rendered.Controller.Index)}
	}
	theirs, _ := seen.Element.(*libvirtxml.DomainMemBalloon)
	ours, isBalloon := rendered.Element.(*libvirtxml.DomainMemBalloon)
	if isBalloon && theirs != nil && ours.FreePageReporting != "" && theirs.FreePageReporting == "" {
		return []string{record.OmittedFreePageReporting}
	}
	return nil
}

// lacksUSB reports whether a domain has no USB controller.
func lacksUSB(dom *libvirtxml.Domain) bool {
	return !slices.ContainsFunc(dom.Devices.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == "usb" && c.Model != "none" })
}

// isLocked reports whether a controller is a PCIe root port whose device the guest cannot eject.
func isLocked(c *libvirtxml.DomainController) bool {
	return c.PCI != nil && c.PCI.Target != nil && c.PCI.Target.Hotplug == "off"
}

// omitsSystemStrings reports whether QEMU writes all strings of a domain's DMI table. Mode 'emulate' is libvirt's default, which it leaves out: so is it here.
func omitsSystemStrings(seen *libvirtxml.Domain) bool {
	if seen.OS != nil && seen.OS.SMBios != nil && seen.OS.SMBios.Mode == "emulate" {
		seen.OS.SMBios = nil
	}
	strings := slices.ContainsFunc(seen.SysInfo, func(info libvirtxml.DomainSysInfo) bool { return info.SMBIOS != nil })
	return !strings && seen.OS != nil && seen.OS.SMBios == nil
}
