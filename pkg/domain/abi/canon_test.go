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
			if text := l.write(nil, value); len(text) == 0 {
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
		text := string(canonical(nil, part))
		if other, taken := texts[text]; taken {
			t.Errorf("%s and %s are both %q", what, other, text)
		}
		texts[text] = what
	}
	empty := string(canonical(nil, &libvirtxml.DomainOS{BootDevices: []libvirtxml.DomainBootDevice{}}))
	if unset := string(canonical(nil, &libvirtxml.DomainOS{})); empty != unset {
		t.Errorf("an empty list is %q and none %q", empty, unset)
	}
}

// TestPCIAddress: the shorter way of an address gives the text of the general one.
func TestPCIAddress(t *testing.T) {
	t.Parallel()
	slow := *layouts[reflect.TypeFor[libvirtxml.DomainAddress]()]
	slow.address = false
	zero, bus := uint(0), uint(17)
	for _, pci := range []libvirtxml.DomainAddressPCI{
		{}, {Bus: &bus}, {Domain: &zero, Bus: &bus, Slot: &zero, Function: &zero}, {Slot: &bus, MultiFunction: "on"},
		{Domain: &zero, Bus: &bus, Slot: &zero, Function: &zero, MultiFunction: "on' }"}, {Bus: &bus, ZPCI: &libvirtxml.DomainAddressZPCI{UID: &bus}},
	} {
		a := &libvirtxml.DomainAddress{PCI: &pci}
		if got, want := string(canonical(nil, a)), string(slow.write(nil, reflect.ValueOf(a).Elem())); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	both := &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{}, USB: &libvirtxml.DomainAddressUSB{Bus: &bus}}
	if got, want := string(canonical(nil, both)), string(slow.write(nil, reflect.ValueOf(both).Elem())); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
