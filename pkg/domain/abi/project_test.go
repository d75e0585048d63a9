package abi

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"libvirt.org/go/libvirtxml"
)

// TestSameOS: sameOS compares all that projectOS keeps, and nothing else.
func TestSameOS(t *testing.T) {
	t.Parallel()
	whole := everything().OS
	whole.Firmware, whole.Loader, whole.FirmwareInfo = "efi", nil, secure("yes")
	for i := range reflect.TypeFor[libvirtxml.DomainOS]().NumField() {
		other := *whole
		reflect.ValueOf(&other).Elem().Field(i).SetZero()
		seen := string(appendCanonical(nil, projectOS(whole))) != string(appendCanonical(nil, projectOS(&other)))
		if sameOS(whole, &other) == seen {
			t.Errorf("without %s the guest sees another machine: %t, sameOS returns %t", reflect.TypeOf(other).Field(i).Name, seen, !seen)
		}
	}
	if sameOS(whole, nil) || sameOS(nil, whole) || !sameOS(nil, nil) {
		t.Error("a domain without the element is the same as one with it, or not as another without it")
	}
}

func secure(enabled string) *libvirtxml.DomainOSFirmwareInfo {
	return &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{{Enabled: enabled, Name: secureBoot}}}
}

// TestFirmwareOf: the frontend names features, the backend a build; a guest sees the class of both.
func TestFirmwareOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		frontend, backend libvirtxml.DomainOS
		want              firmwareClass
	}{
		{want: firmwareClass{}},
		{libvirtxml.DomainOS{}, libvirtxml.DomainOS{Loader: &libvirtxml.DomainLoader{Path: "bios.bin"}}, firmwareClass{}},
		{libvirtxml.DomainOS{Firmware: "efi", FirmwareInfo: secure("no")}, libvirtxml.DomainOS{Loader: &libvirtxml.DomainLoader{Type: "pflash", Secure: "no"}},
			firmwareClass{efi: true}},
		{libvirtxml.DomainOS{Firmware: "efi", FirmwareInfo: secure("yes")}, libvirtxml.DomainOS{Loader: &libvirtxml.DomainLoader{Type: "pflash", Secure: "yes"}},
			firmwareClass{efi: true, secure: true}},
		{libvirtxml.DomainOS{Firmware: "efi", Loader: &libvirtxml.DomainLoader{Stateless: "yes"}},
			libvirtxml.DomainOS{Loader: &libvirtxml.DomainLoader{Type: "rom", Stateless: "yes", Secure: "yes"}}, firmwareClass{efi: true, stateless: true}},
	} {
		if front, back := firmwareOf(&c.frontend), firmwareOf(&c.backend); front != c.want || back != c.want {
			t.Errorf("a frontend has %+v and its domain %+v, want %+v", front, back, c.want)
		}
	}
}

// TestOrdered: a list of any order is sorted as by a stable sort.
func TestOrdered(t *testing.T) {
	t.Parallel()
	type item struct{ key, at int }
	compare := func(a, b *item) int { return cmp.Compare(a.key, b.key) }
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		list := make([]item, random.IntN(9))
		for i := range list {
			list[i] = item{random.IntN(4), i}
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, func(a, b item) int { return compare(&a, &b) })
		var got []item
		for _, e := range appendSorted(nil, list, compare) {
			got = append(got, *e)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v becomes %v, want %v", list, got, want)
		}
	}
}

// TestSameParts: parts that are equal, differ, or are missing.
func TestSameParts(t *testing.T) {
	t.Parallel()
	period, other := &libvirtxml.DomainMemBalloonStats{Period: 5}, &libvirtxml.DomainMemBalloonStats{Period: 9}
	a, b := &libvirtxml.DomainMemBalloon{Model: "virtio", Stats: period}, &libvirtxml.DomainMemBalloon{Model: "virtio", Stats: other}
	alias := *b
	alias.Alias = &libvirtxml.DomainAlias{Name: "a"}
	equal := alias
	equal.Alias = &libvirtxml.DomainAlias{Name: "a"}
	for _, c := range []struct {
		a, b *libvirtxml.DomainMemBalloon
		want bool
	}{{a, b, true}, {nil, nil, true}, {a, nil, false}, {nil, b, false}, {a, &alias, false}, {&equal, &alias, true}} {
		if sameParts(c.a, c.b, projectBalloon) != c.want {
			t.Errorf("%+v and %+v: want %t", c.a, c.b, c.want)
		}
	}
}
