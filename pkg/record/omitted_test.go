package record

import (
	"slices"
	"strings"
	"testing"
)

// TestOmittedEntries: an entry names a default that a guest can do without, and nothing that a spec or a policy decides.
func TestOmittedEntries(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		OmittedGuestAgent, OmittedSCSI, OmittedVirtioSerial, OmittedUSB, OmittedUSBOnDemand, OmittedUSBPorts, OmittedFreePageReporting, OmittedVMPort,
		OmittedSuspendToMemory, OmittedSuspendToDisk, OmittedSMBIOS, OmittedROM("default"), OmittedHotplug(254), "redirdev.usbredir-3",
	} {
		if err := Check(&Record{OmittedDefaults: []string{entry}}); err != nil {
			t.Errorf("%s: %v", entry, err)
		}
	}
	for _, entry := range []string{
		"", "features/smm", "features/acpi", "pm/", "disk.root", "interface.default", "interface./rom", "interface.a b/rom", "interface.a/rom/rom",
		"controller.pci.0/hotplug", "controller.pci.03/hotplug", "controller.scsi.1", "redirdev.", "redirdev.a\"/>", "smbios/uuid", "tpm.tpm",
	} {
		if err := Check(&Record{OmittedDefaults: []string{entry}}); err == nil || !strings.Contains(err.Error(), "omittedDefaults '") {
			t.Errorf("'%s': %v", entry, err)
		}
	}
	for why, entries := range map[string][]string{
		"not sorted": {OmittedSMBIOS, OmittedGuestAgent}, "twice": {OmittedSMBIOS, OmittedSMBIOS}, "endless": slices.Repeat([]string{OmittedSMBIOS}, mostOmitted+1),
	} {
		if err := Check(&Record{OmittedDefaults: entries}); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
}

// TestKeepOmitted: an entry about a setting counts while the guest has the device, and an entry about a device while it does not.
func TestKeepOmitted(t *testing.T) {
	t.Parallel()
	nic, agent, port := OmittedROM("default"), OmittedGuestAgent, OmittedHotplug(3)
	earlier := &Record{OmittedDefaults: []string{agent, port, OmittedVMPort, nic, OmittedSuspendToDisk, OmittedSMBIOS}}
	for _, test := range []struct {
		why  string
		now  Record
		gone []string
	}{
		{"all", Record{Devices: map[string]Address{"interface.default": {PCI: "0000:01:00.0"}, "controller.pci.3": {}}}, nil},
		{"the interface and the port are gone", Record{}, []string{nic, port}},
		{"the guest got the agent", Record{Devices: map[string]Address{"interface.default": {}, "controller.pci.3": {}, agent: {Serial: "0:0:1"}}}, []string{agent}},
		{"the guest got a serial number", Record{Serial: "7", Devices: map[string]Address{"interface.default": {}, "controller.pci.3": {}}}, []string{OmittedSMBIOS}},
	} {
		want := slices.DeleteFunc(slices.Clone(earlier.OmittedDefaults), func(entry string) bool { return slices.Contains(test.gone, entry) })
		if got := KeepOmitted(earlier, &test.now); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", test.why, got, want)
		}
	}
	if kept := KeepOmitted(&Record{}, &Record{}); kept != nil {
		t.Error(kept)
	}
}
