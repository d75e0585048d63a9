package frontend_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/frontends"
	"libvirt.org/go/libvirtxml"
)

// omittingSpec is a guest that has each default which a record can omit.
const omittingSpec = `
spec:
  domain:
    devices:
      clientPassthrough: {}
      disks: [{name: root, disk: {bus: virtio}}]
      interfaces: [{name: default, model: virtio}]
`

// renderOmitting renders a guest whose record omits defaults, and returns it with the guest that has all of them.
func renderOmitting(t *testing.T, arch, spec string, entries ...string) (omitting, whole *libvirtxml.Domain) {
	t.Helper()
	in := frontends.With(t, arch, "omitting", spec)
	in.Defaults.SMBIOS.Manufacturer, in.Defaults.SMBIOS.Product, in.Defaults.SMBIOS.Family = "", "", ""
	in.VMI.Spec.Domain.Firmware.Serial = "" // as a seed's: nobody wrote it
	whole = frontends.Rendered(t, in)
	frozen := abi.Freeze(whole, "v1")
	frozen.Serial, frozen.SMBIOS, frozen.OmittedDefaults = "", nil, entries
	for _, entry := range entries {
		delete(frozen.Devices, entry)
	}
	in.Frozen = &frozen
	return frontends.Rendered(t, in), whole
}

// TestOmittedDefaults: each entry of a record takes one default away.
func TestOmittedDefaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		arch    string
		entries []string
		want    []string
	}{
		{"amd64", nil, nil},
		{"amd64", []string{record.OmittedGuestAgent}, []string{"channel 'guest-agent' is removed"}},
		{"amd64", []string{record.OmittedGuestAgent, record.OmittedVirtioSerial},
			[]string{"controller 'virtio-serial.0' is removed", "channel 'guest-agent' is removed"}},
		{"amd64", []string{record.OmittedSCSI}, []string{"controller 'scsi.0' is removed"}},
		{"amd64", []string{record.OmittedUSBPorts}, []string{"controller 'usb.0' changes its usb.port from '15' to none"}},
		{"amd64", []string{record.Key("redirdev", "usbredir-3")}, []string{"redirdev 'usbredir-3' is removed"}},
		{"amd64", []string{record.OmittedFreePageReporting}, []string{"memballoon 'balloon' changes its freepagereporting from 'on' to none"}},
		{"amd64", []string{record.OmittedROM("default")}, []string{"interface 'default' changes its rom.enabled from 'no' to none"}},
		{"amd64", []string{record.OmittedVMPort}, []string{"the features change"}},
		{"amd64", []string{record.OmittedSuspendToMemory}, []string{"the features change"}},
		{"amd64", []string{record.OmittedSuspendToDisk, record.OmittedSuspendToMemory}, []string{"the features change"}},
		{"amd64", []string{record.OmittedSMBIOS}, []string{"the machine or firmware changes", "the system information (SMBIOS) changes"}},
		{"arm64", []string{record.OmittedSuspendToMemory, record.OmittedVMPort}, nil}, // its boards have neither
	} {
		omitting, whole := renderOmitting(t, test.arch, omittingSpec, test.entries...)
		changes := abi.Changes(whole, omitting)
		// The ports of devices that are gone are free, and their lock with them.
		kept := changes[:0:0]
		for _, change := range changes {
			if !strings.Contains(change, "'pci.") {
				kept = append(kept, change)
			}
		}
		if got, want := strings.Join(kept, "\n"), strings.Join(test.want, "\n"); got != want {
			t.Errorf("%s without %q:\n%s\nwant:\n%s", test.arch, test.entries, got, want)
		}
	}
}

// TestOmittedUSB: a board that always has a USB controller does without one, unless a device needs it; and a board that has one on demand keeps it, if the
// guest had it.
func TestOmittedUSB(t *testing.T) {
	t.Parallel()
	const bare, tablet = "spec: {domain: {devices: {autoattachGraphicsDevice: false}}}", `
spec: {domain: {devices: {autoattachGraphicsDevice: false, inputs: [{name: t, type: tablet, bus: usb}]}}}`
	for _, test := range []struct {
		arch, spec string
		entries    []string
		want       bool
	}{
		{"arm64", bare, nil, true}, {"arm64", bare, []string{record.OmittedUSB}, false}, {"arm64", tablet, []string{record.OmittedUSB}, true},
		{"amd64", bare, nil, false}, {"amd64", bare, []string{record.OmittedUSBOnDemand}, false}, {"amd64", tablet, []string{record.OmittedUSBOnDemand}, true},
	} {
		if dom, _ := renderOmitting(t, test.arch, test.spec, test.entries...); hasUSB(dom) != test.want {
			t.Errorf("%s, %s, without %q: a USB controller: %t", test.arch, test.spec, test.entries, !test.want)
		}
	}
	in := frontends.With(t, "amd64", "omitting", bare)
	in.Frozen = &record.Record{OmittedDefaults: []string{record.OmittedUSBOnDemand}, Devices: map[string]record.Address{
		record.OmittedUSB: {PCI: "0000:03:00.0"}, "controller.pci.3": {PCI: "0000:00:02.2"}}}
	if dom := frontends.Rendered(t, in); !hasUSB(dom) || abi.Freeze(dom, "v1").Devices[record.OmittedUSB].PCI != "0000:03:00.0" {
		t.Errorf("the USB controller is gone, or elsewhere:\n%s", frontends.Printed(t, dom))
	}
}

func hasUSB(dom *libvirtxml.Domain) bool {
	for _, c := range dom.Devices.Controllers {
		if c.Type == "usb" && c.Model != "none" {
			return true
		}
	}
	return false
}

// TestOmittedLock: a port whose device could be ejected stays so, and no other port.
func TestOmittedLock(t *testing.T) {
	t.Parallel()
	_, whole := renderOmitting(t, "amd64", omittingSpec)
	port := uint(0)
	for _, c := range whole.Devices.Controllers {
		if c.PCI != nil && c.PCI.Target != nil && c.PCI.Target.Hotplug == "off" {
			port = *c.Index
		}
	}
	if port == 0 {
		t.Fatal("no port is locked")
	}
	omitting, whole := renderOmitting(t, "amd64", omittingSpec, record.OmittedHotplug(port))
	if changes := abi.Changes(whole, omitting); len(changes) != 1 || !strings.Contains(changes[0], "hotplug from 'off' to none") {
		t.Error(changes)
	}
}

// TestSpecWinsOverOmission: what the spec asks for, the guest has, whatever its record omits.
func TestSpecWinsOverOmission(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why, spec string
		entries   []string
		has       func(*libvirtxml.Domain) bool
	}{
		{"a disk on SCSI", "spec: {domain: {devices: {disks: [{name: root, disk: {bus: scsi}}]}}}", []string{record.OmittedSCSI}, hasController("scsi")},
		{"a probe by the agent", "spec: {readinessProbe: {guestAgentPing: {}}}", []string{record.OmittedGuestAgent, record.OmittedVirtioSerial},
			func(dom *libvirtxml.Domain) bool {
				return len(dom.Devices.Channels) == 1 && hasController("virtio-serial")(dom)
			}},
		{"a channel of its own", "spec: {domain: {devices: {downwardMetrics: {}}}}", []string{record.OmittedGuestAgent, record.OmittedVirtioSerial},
			func(dom *libvirtxml.Domain) bool {
				return len(dom.Devices.Channels) == 1 && hasController("virtio-serial")(dom)
			}},
		{"a chassis", "spec: {domain: {chassis: {serial: c-1}}}", []string{record.OmittedSMBIOS}, func(dom *libvirtxml.Domain) bool { return len(dom.SysInfo) == 1 }},
		{"no ROM reads encrypted memory", "spec: {domain: {launchSecurity: {sev: {}}, firmware: {bootloader: {efi: {secureBoot: false}}}, " +
			"devices: {interfaces: [{name: default, model: virtio}]}}}",
			[]string{record.OmittedROM("default")}, func(dom *libvirtxml.Domain) bool { return dom.Devices.Interfaces[0].ROM.Enabled == "no" }},
	} {
		omitting, _ := renderOmitting(t, "amd64", test.spec, test.entries...)
		if !test.has(omitting) {
			t.Errorf("%s: the record won:\n%s", test.why, frontends.Printed(t, omitting))
		}
	}
}

func hasController(kind string) func(*libvirtxml.Domain) bool {
	return func(dom *libvirtxml.Domain) bool {
		for _, c := range dom.Devices.Controllers {
			if c.Type == kind {
				return true
			}
		}
		return false
	}
}
