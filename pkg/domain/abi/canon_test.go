package abi

import (
	"reflect"
	"testing"

	"libvirt.org/go/libvirtxml"
)

// TestKinds: the writer panics on kinds that it does not know; no type of libvirtxml may get there.
func TestKinds(t *testing.T) {
	t.Parallel()
	if len(layouts) < 300 {
		t.Fatalf("only %d types of a domain are known", len(layouts))
	}
	for is, l := range layouts {
		switch is.Kind() {
		case reflect.Struct:
			for _, f := range l.fields {
				if !is.Field(f.index).IsExported() || f.layout == nil {
					t.Errorf("%s.%s cannot be written", is, f.name)
				}
			}
		case reflect.Pointer, reflect.Slice:
			if l.element == nil {
				t.Errorf("%s has no element", is)
			}
		default:
			value := reflect.New(is).Elem()
			if text := l.appendValue(nil, value); len(text) == 0 {
				t.Errorf("%s has no text", is)
			}
		}
	}
}

// TestCanonical: what is set and what is not are two things, and no two domains have one text.
func TestCanonical(t *testing.T) {
	t.Parallel()
	zero := uint(0)
	texts := map[string]string{}
	for what, part := range map[string]any{
		"nothing":              (*libvirtxml.DomainDisk)(nil),
		"a disk":               &libvirtxml.DomainDisk{},
		"a flag":               &libvirtxml.DomainDisk{ReadOnly: &libvirtxml.DomainDiskReadOnly{}},
		"another flag":         &libvirtxml.DomainDisk{Shareable: &libvirtxml.DomainDiskShareable{}},
		"a zero":               &libvirtxml.DomainDisk{Driver: &libvirtxml.DomainDiskDriver{Queues: &zero}},
		"text":                 &libvirtxml.DomainDisk{Device: "a", Model: "b"},
		"text that looks like": &libvirtxml.DomainDisk{Device: "a Model:1'b"},
		"one element":          &libvirtxml.DomainOS{BootDevices: []libvirtxml.DomainBootDevice{{Dev: "a,"}}},
		"two elements":         &libvirtxml.DomainOS{BootDevices: []libvirtxml.DomainBootDevice{{Dev: "a"}, {}}},
	} {
		text := string(appendCanonical(nil, part))
		if other, taken := texts[text]; taken {
			t.Errorf("%s and %s are both %q", what, other, text)
		}
		texts[text] = what
	}
	empty := string(appendCanonical(nil, &libvirtxml.DomainOS{BootDevices: []libvirtxml.DomainBootDevice{}}))
	if unset := string(appendCanonical(nil, &libvirtxml.DomainOS{})); empty != unset {
		t.Errorf("an empty list is %q and none %q", empty, unset)
	}
}

// slowly is the text of a part without the ways of writeDirectly.
func slowly[T any](part *T) string {
	known := layoutsOf(reflect.TypeFor[T]())
	for _, l := range known {
		l.direct = false
	}
	return string(known[reflect.TypeFor[T]()].appendValue(nil, reflect.ValueOf(part).Elem()))
}

// TestDirectly: the shorter way of an address and a root port gives the text of the general one.
func TestDirectly(t *testing.T) {
	t.Parallel()
	zero, bus, size := uint(0), uint(17), uint64(1)
	for _, pci := range []libvirtxml.DomainAddressPCI{
		{}, {Bus: &bus}, {Domain: &zero, Bus: &bus, Slot: &zero, Function: &zero}, {Slot: &bus, MultiFunction: "on"},
		{Domain: &zero, Bus: &bus, Slot: &zero, Function: &zero, MultiFunction: "on' }"}, {Bus: &bus, ZPCI: &libvirtxml.DomainAddressZPCI{UID: &bus}},
	} {
		a := &libvirtxml.DomainAddress{PCI: &pci}
		if got, want := string(appendCanonical(nil, a)), slowly(a); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	both := &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{}, USB: &libvirtxml.DomainAddressUSB{Bus: &bus}}
	if got, want := string(appendCanonical(nil, both)), slowly(both); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i := range reflect.TypeFor[libvirtxml.DomainAddress]().NumField() { // each kind of address, with all that it can have
		one := &libvirtxml.DomainAddress{}
		fill(reflect.ValueOf(one).Elem().Field(i), 4)
		if got, want := string(appendCanonical(nil, one)), slowly(one); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	at := &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Bus: &bus}}
	model := &libvirtxml.DomainControllerPCIModel{Name: "m"}
	for _, target := range []libvirtxml.DomainControllerPCITarget{
		{}, {Chassis: &bus, Port: &zero}, {Chassis: &bus, Port: &zero, Hotplug: "off"}, {Chassis: &bus, NUMANode: &zero}, {BusNr: &bus}, {ChassisNr: &bus},
		{Index: &zero}, {Hotplug: "off", MemReserve: &size},
	} {
		for _, pci := range []libvirtxml.DomainControllerPCI{
			{}, {Model: model}, {Target: &target}, {Model: model, Target: &target}, {Model: &libvirtxml.DomainControllerPCIModel{}, Target: &target},
			{Model: model, Target: &target, Hole64: &libvirtxml.DomainControllerPCIHole64{}},
		} {
			for _, c := range []libvirtxml.DomainController{
				{PCI: &pci}, {Type: "pci", Index: &bus, Model: "m", PCI: &pci, Address: at}, {PCI: &pci, Address: both}, {PCI: &pci, Address: at},
				{Type: "pci", PCI: &pci, Address: at, Alias: &libvirtxml.DomainAlias{Name: "a"}}, {Driver: &libvirtxml.DomainControllerDriver{}, PCI: &pci, Address: at},
			} {
				seen := projectController(c)
				if got, want := string(writeController(nil, &c)), slowly(&seen); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		}
	}
}

// fill gives every field of a value something, as deep as depth allows.
func fill(v reflect.Value, depth int) {
	if depth == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth-1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), depth-1)
		fill(v.Index(1), depth-1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth-1)
			if v.Field(i).Kind() == reflect.String && depth > 1 {
				v.Field(i).SetString(v.Type().Field(i).Name) // so that no field passes for another
			}
		}
	case reflect.String:
		v.SetString(v.Type().Name())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	}
}

// everything is a domain with every field that the guest may see.
func everything() *libvirtxml.Domain {
	dom := &libvirtxml.Domain{}
	fill(reflect.ValueOf(dom).Elem(), 8)
	return dom
}

// TestWriteSeen: a digest is made of the text of the projected domain, although no projected domain is made for it.
func TestWriteSeen(t *testing.T) {
	t.Parallel()
	whole := everything()
	alone, bare := *whole, *whole
	alone.LaunchSecurity, bare.Devices = nil, nil
	// As most guests have them, and with parts that are there and empty.
	usual := &libvirtxml.Domain{Devices: &list{
		Disks: []libvirtxml.DomainDisk{
			{Device: "disk", Target: &libvirtxml.DomainDiskTarget{Dev: "vda", Bus: "virtio"}},
			{Device: "cdrom", Target: &libvirtxml.DomainDiskTarget{Dev: "sda", Bus: "sata", Tray: "open"}, ReadOnly: &libvirtxml.DomainDiskReadOnly{}},
		},
		Interfaces: []libvirtxml.DomainInterface{{MAC: &libvirtxml.DomainInterfaceMAC{Address: "02:00:00:00:00:01"}}, {}},
		Channels: []libvirtxml.DomainChannel{
			{Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: "agent"}}},
			{Target: &libvirtxml.DomainChannelTarget{Xen: &libvirtxml.DomainChannelTargetXen{Name: "agent"}}}, {},
		},
		Controllers: []libvirtxml.DomainController{{Type: "usb", PCI: &libvirtxml.DomainControllerPCI{}}, {Type: "pci"}},
		MemBalloon:  &libvirtxml.DomainMemBalloon{Model: "none"},
	}}
	doms := []*libvirtxml.Domain{whole, &alone, &bare, usual, {}, {Devices: &list{}}}
	for _, o := range []libvirtxml.DomainOS{
		{}, {Firmware: "efi"}, {Firmware: "bios"}, {Loader: &libvirtxml.DomainLoader{Type: "rom", Stateless: "yes"}}, {ACPI: &libvirtxml.DomainACPI{}},
		{Loader: &libvirtxml.DomainLoader{Type: "pflash", Secure: "yes"}}, {Loader: &libvirtxml.DomainLoader{Secure: "yes"}}, {Type: &libvirtxml.DomainOSType{}},
		{Firmware: "efi", FirmwareInfo: &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{{Enabled: "yes", Name: "secure-boot"}}}},
		{Firmware: "efi", FirmwareInfo: &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{{Enabled: "yes", Name: "enrolled-keys"}}}},
	} {
		doms = append(doms, &libvirtxml.Domain{OS: &o})
	}
	for _, f := range []libvirtxml.DomainFeatureList{
		{}, {ACPI: whole.Features.ACPI}, {APIC: whole.Features.APIC}, {VMPort: whole.Features.VMPort}, {SMM: whole.Features.SMM},
		{ACPI: whole.Features.ACPI, APIC: whole.Features.APIC, VMPort: whole.Features.VMPort, SMM: whole.Features.SMM},
		{ACPI: whole.Features.ACPI, APIC: &libvirtxml.DomainFeatureAPIC{}, PMU: whole.Features.PMU, SMM: &libvirtxml.DomainFeatureSMM{State: "on"}},
	} {
		doms = append(doms, &libvirtxml.Domain{Features: &f})
	}
	for depth := range 8 {
		shallow := &libvirtxml.Domain{}
		fill(reflect.ValueOf(shallow).Elem(), depth)
		doms = append(doms, shallow)
	}
	for _, dom := range doms {
		if got, want := string(writeSeen(nil, dom)), slowly(Project(dom)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestSamePlatform: what projectPlatform keeps, samePlatform compares.
func TestSamePlatform(t *testing.T) {
	t.Parallel()
	dom := everything()
	if !samePlatform(dom, everything()) {
		t.Fatal("equal domains are not the same")
	}
	kept := reflect.ValueOf(projectPlatform(dom)).Elem()
	for i := range kept.NumField() {
		if kept.Field(i).IsZero() {
			continue
		}
		other := *dom
		reflect.ValueOf(&other).Elem().Field(i).SetZero()
		if samePlatform(dom, &other) {
			t.Errorf("a domain without %s is the same", kept.Type().Field(i).Name)
		}
	}
}

// TestNICParts: what nic keeps of an interface, nicPartsOf compares.
func TestNICParts(t *testing.T) {
	t.Parallel()
	whole := everything().Devices.Interfaces[0]
	kept := reflect.ValueOf(projectNIC(whole))
	for i := range kept.NumField() {
		name := kept.Type().Field(i).Name
		if kept.Field(i).IsZero() || name == "Source" { // the same of all
			continue
		}
		other := whole
		reflect.ValueOf(&other).Elem().Field(i).SetZero()
		if nicPartsOf(whole) == nicPartsOf(other) {
			t.Errorf("an interface without %s has the same parts", name)
		}
	}
	driver := projectNICDriver(whole.Driver)
	for i := range reflect.TypeOf(driver).NumField() {
		other := *whole.Driver
		reflect.ValueOf(&other).Elem().Field(i).SetZero()
		if kept, same := !reflect.ValueOf(driver).Field(i).IsZero(), projectNICDriver(&other) == driver; kept == same {
			t.Errorf("a driver without %s is the same: %t", reflect.TypeOf(driver).Field(i).Name, same)
		}
	}
}
