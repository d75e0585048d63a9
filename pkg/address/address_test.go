package address_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/address"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestParsePCI(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]address.PCI{
		"0000:81:01.0": {Bus: 0x81, Slot: 1},
		"00:1f.7":      {Slot: 0x1f, Function: 7}, // as lspci prints it
		"0000:FE:00.0": {Bus: 0xfe},
	} {
		got, err := address.ParsePCI(text)
		if err != nil || got != want {
			t.Errorf("'%s' is %v (%v), want %v", text, got, err, want)
		}
	}
	// The API's own example has function 10, which no PCI device has.
	for _, text := range []string{"", "0000:81:01.10", "0001:00:02.0", "0000:00:20.0", "0000:00:02.8", "0:0:2.0", " 00:02.0"} {
		if got, err := address.ParsePCI(text); err == nil {
			t.Errorf("'%s' is %v, want an error", text, got)
		}
	}
}

func TestParseHostPCI(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0000:81:01.0":     "0000:81:01.0",
		"0008:01:00.0":     "0008:01:00.0", // NVIDIA Grace
		"000c:01:00.7":     "000c:01:00.7",
		"10000:E1:1f.0":    "10000:e1:1f.0", // behind Intel's VMD
		"00000001:01:00.0": "0001:01:00.0",
		"ffffffff:ff:1f.7": "ffffffff:ff:1f.7",
		"8A:00.0":          "0000:8a:00.0", // as lspci prints it
	} {
		got, err := address.ParseHostPCI(text)
		if err != nil || got.String() != want {
			t.Errorf("'%s' is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0001:00:20.0", "0001:00:02.8", "1:00:02.0", "001:00:02.0", "100000000:00:02.0", "0001:000:02.0", "../0001:00:02.0",
		"0001:00:02.0\n", "0x0001:00:02.0"} {
		if got, err := address.ParseHostPCI(text); err == nil {
			t.Errorf("'%s' is %v, want an error", text, got)
		}
	}
}

func TestLetters(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint]string{0: "a", 25: "z", 26: "aa", 51: "az", 52: "ba", 701: "zz", 702: "aaa"} {
		if got := address.Letters(n); got != want {
			t.Errorf("%d is '%s', want '%s'", n, got, want)
		}
		if got, ok := address.FromLetters(want); !ok || got != n {
			t.Errorf("'%s' is %d, want %d", want, got, n)
		}
	}
	for _, text := range []string{"", "A", "a1"} {
		if n, ok := address.FromLetters(text); ok {
			t.Errorf("'%s' is %d, want no number", text, n)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	const none = address.Unrecorded
	for _, c := range []struct {
		name           string
		recorded, want []uint
	}{
		{"none", nil, nil},
		{"fresh, in order", []uint{none, none, none}, []uint{1, 2, 3}},
		{"a new one before the others", []uint{none, 1, 2}, []uint{3, 1, 2}},
		{"holes are filled", []uint{none, 2, none}, []uint{1, 2, 3}},
		{"of two recorded alike the first keeps it", []uint{5, 5, 2}, []uint{5, 1, 2}},
		{"a recorded number below the first is ignored", []uint{0}, []uint{1}},
	} {
		if diff := cmp.Diff(c.want, address.Numbers(c.recorded, 1)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func device(key, pin string) address.Device {
	return address.Device{Key: key, Pin: pin, Path: field.NewPath("spec", key)}
}

func single(key, pin string) address.Device {
	d := device(key, pin)
	d.Where = address.OnRootBus
	return d
}

func bridged(key string) address.Device {
	d := device(key, "")
	d.Where = address.OnBridge
	return d
}

func TestPlace(t *testing.T) {
	t.Parallel()
	sata := single("sata", "")
	sata.Preferred, sata.Fixed = &address.PCI{Slot: 0x1f, Function: 2}, true
	for _, c := range []struct {
		name    string
		t       address.PCIe
		devices []address.Device
		want    string // addresses by key, in the order of the devices
		errs    []string
	}{
		{name: "each behind a port of its own", devices: []address.Device{device("a", ""), device("b", "")}, want: "01:00.0 02:00.0"},
		{name: "single devices from the top, away from ports", t: address.PCIe{Reserved: []uint{0, 31}},
			devices: []address.Device{single("a", ""), single("b", "")}, want: "00:1e.0 00:1d.0"},
		{name: "fixed in a reserved slot", t: address.PCIe{Reserved: []uint{31}}, devices: []address.Device{sata, single("a", "")}, want: "00:1f.2 00:1e.0"},
		{name: "pins first, wherever they come in the list", devices: []address.Device{device("a", ""), device("b", "0000:01:00.0")}, want: "02:00.0 01:00.0"},
		{name: "a pin on a far bus brings the ports before it", devices: []address.Device{device("a", "05:00.0"), device("b", "")}, want: "05:00.0 01:00.0"},
		{name: "ports go around a pin on the root bus", devices: []address.Device{single("a", "00:02.0"), device("b", "")}, want: "00:02.0 01:00.0"},
		{name: "frozen before new", t: address.PCIe{Frozen: map[string]string{"b": "0000:01:00.0"}, Ports: map[uint]string{1: "0000:00:02.0"}},
			devices: []address.Device{device("a", ""), device("b", "")}, want: "02:00.0 01:00.0"},
		{name: "a hole is filled", t: address.PCIe{Frozen: map[string]string{"b": "0000:02:00.0"}, Ports: map[uint]string{1: "0000:00:02.0", 2: "0000:00:02.1"}},
			devices: []address.Device{device("b", ""), device("a", "")}, want: "02:00.0 01:00.0"},
		{name: "a device that became another kind gets a new place", t: address.PCIe{Frozen: map[string]string{"a": "0000:01:00.0"},
			Ports: map[uint]string{1: "0000:00:02.0"}},
			devices: []address.Device{single("a", "")}, want: "00:1f.0"},
		{name: "invalid recorded addresses are ignored", t: address.PCIe{Frozen: map[string]string{"a": "nonsense", "b": "0000:77:00.0"},
			Ports: map[uint]string{1: "?"}}, devices: []address.Device{device("a", ""), device("b", "")}, want: "01:00.0 02:00.0"},
		{name: "functions of one slot", devices: []address.Device{single("a", "00:05.0"), single("b", "00:05.1")}, want: "00:05.0 00:05.1"},
		{name: "two pins on one address", devices: []address.Device{device("a", "01:00.0"), device("b", "0000:01:00.0")},
			errs: []string{"Duplicate value spec.b: already used by 'spec.a': choose another"}},
		{name: "a function without function 0", devices: []address.Device{single("a", "00:05.1")},
			errs: []string{"Invalid value spec.a: no device has function 0 of this slot, '0000:00:05.0', " +
				"without which the guest does not find the others: give it to a device"}},
		{name: "another slot than 00 makes the bus a bridge", devices: []address.Device{device("a", "03:01.0"), device("b", ""), device("c", "03:02.0")},
			want: "03:01.0 02:00.0 03:02.0"},
		{name: "a bridge stays when the pin goes, and its port with it", t: address.PCIe{Frozen: map[string]string{"a": "0000:02:01.0"},
			Ports: map[uint]string{1: "0000:00:02.0", 2: "0000:01:00.0"}},
			devices: []address.Device{device("a", ""), device("b", "")}, want: "02:01.0 03:00.0"},
		{name: "the first port cannot be a bridge", devices: []address.Device{device("a", "01:01.0")},
			errs: []string{"Invalid value spec.a: bus '01' is behind the first root port, where only slot '00' exists: choose bus '02' or above"}},
		{name: "slot 00 of a bridge", devices: []address.Device{device("a", "02:01.0"), device("b", "02:00.0")},
			errs: []string{"Invalid value spec.b: 'spec.a' makes this bus a bridge: the slot must be from '01' to '1f'"}},
		{name: "no port is left for a bridge", devices: []address.Device{device("a", "02:01.0"), device("b", "01:00.0")},
			errs: []string{"Invalid value spec.a: no root port below this bus is free for its bridge: choose a higher bus"}},
		{name: "a bridge where a port has been", t: address.PCIe{Ports: map[uint]string{1: "0000:00:02.0", 2: "0000:00:02.1"}},
			devices: []address.Device{device("a", "02:01.0")},
			errs:    []string{"Invalid value spec.a: this bus is behind a root port since an earlier boot, where only slot '00' exists: choose another"}},
		{name: "a pin on the port of a bridge", t: address.PCIe{Ports: map[uint]string{1: "0000:00:02.0", 2: "0000:01:00.0"}},
			devices: []address.Device{device("a", "01:00.0")},
			errs:    []string{"Duplicate value spec.a: already used by 'bridge 2 since an earlier boot': choose another"}},
		{name: "devices that need ports of the PC share a bridge", devices: []address.Device{device("a", ""), bridged("b"), bridged("c"), device("d", "")},
			want: "01:00.0 03:01.0 03:02.0 04:00.0"},
		{name: "or on the user's bridge", devices: []address.Device{device("a", "05:02.0"), bridged("b"), bridged("c")}, want: "05:02.0 05:01.0 05:03.0"},
		{name: "the bridge of an earlier boot", t: address.PCIe{Frozen: map[string]string{"a": "0000:02:01.0"},
			Ports: map[uint]string{1: "0000:00:02.0", 2: "0000:01:00.0"}},
			devices: []address.Device{bridged("b"), bridged("a")}, want: "02:02.0 02:01.0"},
		{name: "who had a port of its own before bridges keeps it", t: address.PCIe{Frozen: map[string]string{"a": "0000:01:00.0"},
			Ports: map[uint]string{1: "0000:00:02.0"}},
			devices: []address.Device{bridged("a"), bridged("b")}, want: "01:00.0 03:01.0"},
		{name: "the chipset's slot", t: address.PCIe{Reserved: []uint{31}}, devices: []address.Device{single("a", "00:1f.0")},
			errs: []string{"Invalid value spec.a: this slot is used by devices of the machine type: choose another"}},
		{name: "a pin where root ports have been", t: address.PCIe{Ports: map[uint]string{1: "0000:00:02.0"}}, devices: []address.Device{single("a", "00:02.0")},
			errs: []string{"Invalid value spec.a: slot is used by root port 1 since an earlier boot: choose another"}},
		{name: "a bus that the root bus has no port for", devices: []address.Device{device("a", "fe:00.0")},
			errs: []string{"Invalid value spec.a: the root bus has no room for this many root ports: choose a lower bus"}},
		{name: "a pin where another device has been", t: address.PCIe{Frozen: map[string]string{"b": "0000:01:00.0"}, Ports: map[uint]string{1: "0000:00:02.0"}},
			devices: []address.Device{device("a", "01:00.0"), device("b", "")},
			errs:    []string{"Invalid value spec.a: used by 'spec.b' since an earlier boot: choose another"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, errs := c.t.Place(c.devices)
			var got []string
			for _, err := range errs {
				got = append(got, err.Type.String()+" "+err.Field+": "+err.Detail)
			}
			if diff := cmp.Diff(c.errs, got); diff != "" {
				t.Fatalf("errors (-want +got):\n%s", diff)
			}
			var places []string
			for _, at := range plan.Devices {
				places = append(places, strings.TrimPrefix(at.String(), "0000:"))
			}
			if text := strings.Join(places, " "); len(errs) == 0 && text != c.want {
				t.Errorf("places are '%s', want '%s'", text, c.want)
			}
		})
	}
}

// TestFree: so many empty ports are left, and a full root bus is an error only for those who need a place.
func TestFree(t *testing.T) {
	t.Parallel()
	plan, _ := address.PCIe{Free: 3}.Place([]address.Device{device("a", "")})
	if len(plan.Ports) != 4 || !plan.Occupied[0] || plan.Occupied[1] {
		t.Errorf("%d ports, occupied %v; want 4, the first occupied", len(plan.Ports), plan.Occupied)
	}
	var many []address.Device
	for i := range 241 { // 30 slots of 8 ports
		many = append(many, device(fmt.Sprint(i), ""))
	}
	plan, errs := address.PCIe{Free: 3}.Place(many[:240])
	if len(errs) > 0 || len(plan.Ports) != 240 {
		t.Errorf("%d ports and errors %v, want 240 and none", len(plan.Ports), errs)
	}
	if _, errs := (address.PCIe{}).Place(many); len(errs) != 1 || errs[0].Field != "spec.240" {
		t.Errorf("errors %v, want one at spec.240", errs)
	}
}

// TestRandom: whatever the record and the pins say, no two devices share a place, and recorded devices keep their places unless another device is pinned
// there.
func TestRandom(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		topology := address.PCIe{Reserved: []uint{0, 31}, Free: r.IntN(5), Frozen: map[string]string{}, Ports: map[uint]string{}}
		for i := range r.IntN(20) {
			topology.Ports[uint(i+1)] = address.PCI{Slot: uint(2 + i/8), Function: uint(i % 8)}.String()
			topology.Frozen[fmt.Sprint(r.IntN(20))] = address.PCI{Bus: uint(i + 1)}.String()
		}
		var devices []address.Device
		for i := range r.IntN(20) {
			d := device(fmt.Sprint(i), "")
			if r.IntN(4) == 0 {
				d.Where = address.OnRootBus
			}
			devices = append(devices, d)
		}
		plan, errs := topology.Place(devices)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		seen := map[address.PCI]string{}
		for i, at := range plan.Ports {
			seen[at] = fmt.Sprint("port ", i+1)
		}
		for i, d := range devices {
			at := plan.Devices[i]
			if at == (address.PCI{}) || seen[at] != "" {
				t.Fatalf("'%s' is at %s with '%s'", d.Key, at, seen[at])
			}
			seen[at] = d.Key
			if was := topology.Frozen[d.Key]; was != "" && d.Where == address.BehindPort && at.String() != was {
				t.Fatalf("'%s' moves from %s to %s", d.Key, was, at)
			}
		}
	}
}
