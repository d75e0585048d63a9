package render

import (
	"maps"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// biosOf returns the strings of the BIOS of a domain.
func biosOf(dom *libvirtxml.Domain) map[string]string {
	texts := map[string]string{}
	for _, info := range dom.SysInfo {
		if info.SMBIOS != nil && info.SMBIOS.BIOS != nil {
			for _, entry := range info.SMBIOS.BIOS.Entry {
				texts[entry.Name] = entry.Value
			}
		}
	}
	return texts
}

// TestBIOSStrings: a guest keeps the strings of the BIOS of its first boot, also if a later version of Kiln has others. A guest with EFI firmware, a guest
// whose record lacks these strings, and a guest that KubeVirt runs get none.
func TestBIOSStrings(t *testing.T) {
	t.Parallel()
	own := map[string]string{"vendor": "SeaBIOS", "version": "kiln-1", "date": "04/01/2014"}
	later := config.BIOS{Vendor: "Later", Version: "2", Date: "01/01/2030"}
	boot := func(m Machine) Hardware {
		t.Helper()
		out, errs := Domain(m)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		return Hardware{Frontend: out.Documents.Domain, Record: out.Record}
	}
	m := withEFI(t, "devices: {}")
	first := boot(m)
	if !maps.Equal(biosOf(first.Frontend), own) || !maps.Equal(first.Record.BIOS, own) || first.Record.SchemaVersion != 4 {
		t.Errorf("the first boot has %v, and the record %v with schemaVersion %d", biosOf(first.Frontend), first.Record.BIOS, first.Record.SchemaVersion)
	}
	if err := record.Check(&first.Record); err != nil {
		t.Error(err)
	}
	again := m
	again.Frozen, again.Defaults.BIOS = &first.Record, later
	if second := boot(again); !maps.Equal(biosOf(second.Frontend), own) || !maps.Equal(second.Record.BIOS, own) {
		t.Errorf("the second boot has %v, and the record %v", biosOf(second.Frontend), second.Record.BIOS)
	}
	before := first.Record
	before.BIOS, before.SchemaVersion = nil, 2
	again.Frozen = &before
	if second := boot(again); len(biosOf(second.Frontend))+len(second.Record.BIOS) > 0 || second.Record.SchemaVersion != 2 {
		t.Errorf("a guest of an earlier version gets %v, and the record %v", biosOf(second.Frontend), second.Record.BIOS)
	}
	released := first.Record
	released.BIOS = map[string]string{"release": "1.2", "vendor": "V", "version": "<v>, \"1\"", "date": "12/31/1999"}
	again.Frozen = &released
	if second := boot(again); !maps.Equal(biosOf(second.Frontend), released.BIOS) {
		t.Errorf("of a record with %v, the guest has %v", released.BIOS, biosOf(second.Frontend))
	}
	if efi := boot(withBuilds(withEFI(t, withoutKeys), "a.raw")); len(biosOf(efi.Frontend))+len(efi.Record.BIOS) > 0 {
		t.Errorf("a guest with EFI firmware has %v", biosOf(efi.Frontend))
	}
	if made, errs := KubeVirt(m.VMI, nil); len(errs) > 0 || len(made.BIOS) > 0 {
		t.Errorf("a guest of KubeVirt has %v: %v", made.BIOS, errs)
	}
}

// TestBIOSStringsOfOthers: a guest that another program made keeps the strings of the BIOS of its domain, and lacks them if the domain has none.
func TestBIOSStringsOfOthers(t *testing.T) {
	t.Parallel()
	m := withEFI(t, "devices: {}")
	first, errs := Domain(m)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	for why, theirs := range map[string][]libvirtxml.DomainSysInfoEntry{
		"none": nil, "some": {{Name: "vendor", Value: "Theirs"}, {Name: "release", Value: "0.7"}},
	} {
		dom, err := copyDomain(first.Documents.Domain)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(dom.SysInfo, func(s libvirtxml.DomainSysInfo) bool { return s.SMBIOS != nil })
		if dom.SysInfo[at].SMBIOS.BIOS = nil; theirs != nil {
			dom.SysInfo[at].SMBIOS.BIOS = &libvirtxml.DomainSysInfoBIOS{Entry: theirs}
		}
		adopted, errs := Adopt(m, dom, SamePlaces, true)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		if len(adopted.Changes) > 0 || len(adopted.Record.BIOS) != len(theirs) || len(biosOf(adopted.After)) != len(theirs) {
			t.Errorf("%s: the record has %v, and the next boot %v: %v", why, adopted.Record.BIOS, biosOf(adopted.After), adopted.Changes)
		}
	}
}
