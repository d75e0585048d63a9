package address_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/address"
)

// near is a device next to a NUMA node of the guest.
func near(key string, node uint) address.Device {
	d := device(key, "")
	d.NUMANode = &node
	return d
}

// buses is what a plan says of expanders: <index>=<bus number>:<NUMA node> at <address>.
func buses(plan keyed) string {
	var words []string
	for _, index := range slices.Sorted(maps.Keys(plan.Expanders)) {
		e, node := plan.Expanders[index], "?"
		if e.NUMANode != nil {
			node = fmt.Sprint(*e.NUMANode)
		}
		words = append(words, fmt.Sprintf("%d=%d:%s at %s", index, e.BusNr, node, plan.Ports[index-1]))
	}
	return strings.Join(words, " ")
}

// again is the topology of a later boot of what a plan was made for.
func again(t address.PCIe, plan keyed) address.PCIe {
	t.Frozen, t.Ports, t.Expanders = map[string]string{}, map[uint]string{}, plan.Expanders
	for key, at := range plan.Devices {
		t.Frozen[key] = at.String()
	}
	for i, at := range plan.Ports {
		t.Ports[uint(i+1)] = at.String()
	}
	return t
}

// keyed is a plan with the addresses by key.
type keyed struct {
	address.Plan
	Devices map[string]address.PCI
}

func byKey(devices []address.Device, plan address.Plan) keyed {
	out := keyed{plan, map[string]address.PCI{}}
	for i, d := range devices {
		if plan.Placed[i] {
			out.Devices[d.Key] = plan.Devices[i]
		}
	}
	return out
}

func placed(t *testing.T, topology address.PCIe, devices ...address.Device) keyed {
	t.Helper()
	plan, errs := topology.Place(devices)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return byKey(devices, plan)
}

func TestNUMANodes(t *testing.T) {
	t.Parallel()
	topology := address.PCIe{Reserved: []uint{0, 31}, Free: 2}
	plan := placed(t, topology, device("nic", ""), near("gpu0", 0), near("gpu1", 1), near("gpu2", 0), device("disk", ""))
	if got, want := buses(plan), "5=240:0 at 0000:00:1e.0 7=224:1 at 0000:00:1d.0"; got != want {
		t.Errorf("expanders are '%s', want '%s'", got, want)
	}
	without := placed(t, topology, device("nic", ""), device("disk", ""))
	for key, want := range without.Devices {
		if plan.Devices[key] != want {
			t.Errorf("'%s' is at %s, and without devices next to NUMA nodes at %s", key, plan.Devices[key], want)
		}
	}
	want := map[string]address.PCI{"nic": {Bus: 1}, "disk": {Bus: 2}, "gpu0": {Bus: 6}, "gpu1": {Bus: 8}, "gpu2": {Bus: 9}}
	if diff := cmp.Diff(want, plan.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if at, want := plan.Ports[8], (address.PCI{Bus: 5, Slot: 1}); at != want {
		t.Errorf("the second port of the first expander is at %s, want %s", at, want)
	}
}

// TestNUMANodesLater: a later boot moves nothing, whatever comes and goes, and fills holes.
func TestNUMANodesLater(t *testing.T) {
	t.Parallel()
	topology := address.PCIe{Reserved: []uint{0, 31}, Free: 2}
	first := placed(t, topology, device("nic", ""), near("a", 0), near("b", 1))
	for _, c := range []struct {
		why     string
		devices []address.Device
		want    map[string]address.PCI // of what is new
		buses   string
	}{
		{"the same", []address.Device{device("nic", ""), near("a", 0), near("b", 1)}, nil, "4=240:0 at 0000:00:1e.0 6=224:1 at 0000:00:1d.0"},
		{"in another order", []address.Device{near("b", 1), near("a", 0), device("nic", "")}, nil, "4=240:0 at 0000:00:1e.0 6=224:1 at 0000:00:1d.0"},
		{"the record counts, not what a host says now", []address.Device{near("a", 1), near("b", 0)}, nil, "4=240:0 at 0000:00:1e.0 6=224:1 at 0000:00:1d.0"},
		{"the gate is off now", []address.Device{device("a", ""), device("b", "")}, nil, "4=240:0 at 0000:00:1e.0 6=224:1 at 0000:00:1d.0"},
		{"one more on a bus", []address.Device{near("new", 0), near("a", 0), near("b", 1)}, map[string]address.PCI{"new": {Bus: 8}},
			"4=240:0 at 0000:00:1e.0 6=224:1 at 0000:00:1d.0"},
		{"one instead of another", []address.Device{near("new", 0), near("b", 1)}, map[string]address.PCI{"new": {Bus: 5}},
			"4=240:0 at 0000:00:1e.0 6=224:1 at 0000:00:1d.0"},
		{"next to a third NUMA node", []address.Device{near("new", 2), near("a", 0), near("b", 1)}, map[string]address.PCI{"new": {Bus: 9}},
			"4=240:0 at 0000:00:1e.0 6=224:1 at 0000:00:1d.0 8=208:2 at 0000:00:1c.0"},
		{"what can be anywhere stays off these buses", []address.Device{device("x", ""), device("y", ""), device("z", ""), device("nic", "")},
			map[string]address.PCI{"x": {Bus: 2}, "y": {Bus: 3}, "z": {Bus: 8}}, "4=240:0 at 0000:00:1e.0 6=224:1 at 0000:00:1d.0"},
		{"none is left", nil, nil, "4=240:0 at 0000:00:1e.0 6=224:1 at 0000:00:1d.0"},
	} {
		plan := placed(t, again(topology, first), c.devices...)
		for _, d := range c.devices {
			want, new := c.want[d.Key]
			if !new {
				want = first.Devices[d.Key]
			}
			if got := plan.Devices[d.Key]; got != want {
				t.Errorf("%s: '%s' is at %s, want %s", c.why, d.Key, got, want)
			}
		}
		if got := buses(plan); got != c.buses {
			t.Errorf("%s: expanders are '%s', want '%s'", c.why, got, c.buses)
		}
	}
}

// TestBusNumbers: fifteen devices to an expander, then another one for the same NUMA node, as long as there are numbers.
func TestBusNumbers(t *testing.T) {
	t.Parallel()
	var many []address.Device
	for i := range 226 {
		many = append(many, near(fmt.Sprint(i), 3))
	}
	plan := placed(t, address.PCIe{Reserved: []uint{0, 31}}, many[:16]...)
	if got, want := buses(plan), "1=240:3 at 0000:00:1e.0 17=224:3 at 0000:00:1d.0"; got != want {
		t.Errorf("expanders are '%s', want '%s'", got, want)
	}
	full, errs := address.PCIe{Reserved: []uint{0, 31}, Free: 3}.Place(many)
	if len(errs) == 0 || !strings.Contains(errs[0].Detail, "no PCI bus is left for NUMA node 3") {
		t.Errorf("errors %v, want one for lack of numbers", errs)
	}
	for index, e := range full.Expanders {
		if e.BusNr <= 3 {
			t.Errorf("expander %d has number %d, and the root ports have those up to 3", index, e.BusNr)
		}
	}
}

func TestPinsOnNUMANodes(t *testing.T) {
	t.Parallel()
	topology := address.PCIe{Reserved: []uint{0, 31}, Free: 2}
	later := again(topology, placed(t, topology, near("a", 0)))
	for _, c := range []struct{ pin, want string }{
		{"0000:03:00.0", "this bus is reserved for devices of a NUMA node since an earlier boot: choose another"},
		{"0000:03:01.0", "this bus is reserved for devices of a NUMA node since an earlier boot: choose another"},
		{"0000:f0:00.0", "this bus is reserved for devices of a NUMA node since an earlier boot: choose another"},
		{"0000:04:01.0", "this bus is behind a root port since an earlier boot, where only slot '00' exists: choose another"},
		{"0000:00:1e.0", "slot is used by expander bus 3 since an earlier boot: choose another"},
		{"0000:04:00.0", "used by 'spec.a' since an earlier boot: choose another"},
		{"0000:02:00.0", ""},
	} {
		_, errs := later.Place([]address.Device{device("pinned", c.pin), near("a", 0)})
		got := ""
		if len(errs) > 0 {
			got = errs[0].Detail
		}
		if got != c.want {
			t.Errorf("'%s': '%s', want '%s'", c.pin, got, c.want)
		}
	}
}

// TestRandomHistories: over many boots, devices come and go, and none that stays ever moves, shares its place, or has its bus renumbered.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		topology, was := address.PCIe{Reserved: []uint{0, 31}, Free: r.IntN(4)}, keyed{}
		for range 6 {
			var devices []address.Device
			for i := range 24 {
				if r.IntN(2) == 0 {
					continue
				}
				d := device(fmt.Sprint(i), "")
				if i%3 > 0 {
					d = near(fmt.Sprint(i), uint(i%4))
				}
				devices = append(devices, d)
			}
			r.Shuffle(len(devices), func(i, j int) { devices[i], devices[j] = devices[j], devices[i] })
			now := placed(t, topology, devices...)
			seen := map[address.PCI]string{}
			for i, at := range now.Ports {
				if seen[at] != "" {
					t.Fatalf("ports %d and %s are both at %s", i+1, seen[at], at)
				}
				seen[at] = fmt.Sprint(i + 1)
			}
			for _, d := range devices {
				at := now.Devices[d.Key]
				if seen[at] != "" {
					t.Fatalf("'%s' is at %s with '%s'", d.Key, at, seen[at])
				}
				seen[at] = d.Key
				if old, stays := was.Devices[d.Key]; stays && old != at {
					t.Fatalf("'%s' moves from %s to %s", d.Key, old, at)
				}
				if e, on := now.Expanders[now.Ports[at.Bus-1].Bus]; on != (d.NUMANode != nil) || on && *e.NUMANode != *d.NUMANode {
					t.Fatalf("'%s' is at %s, next to the wrong NUMA node or none", d.Key, at)
				}
			}
			for index, e := range was.Expanders {
				if diff := cmp.Diff(e, now.Expanders[index]); diff != "" {
					t.Fatalf("expander %d changes (-was +is):\n%s", index, diff)
				}
			}
			topology, was = again(topology, now), now
		}
	}
}
