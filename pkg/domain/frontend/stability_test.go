package frontend_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/test/frontends"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// generated is how many random guests the properties are tried on; PROPS=n asks for more.
func generated() int {
	if n, err := strconv.Atoi(os.Getenv("PROPS")); err == nil {
		return n
	}
	return 300
}

// random is a guest with some of everything.
func random(t testing.TB, r *rand.Rand) *v1.VirtualMachineInstance {
	arch := []string{"amd64", "arm64", "s390x"}[r.IntN(3)]
	vmi := frontends.Explicit(t, arch, "random")
	for range r.IntN(12) {
		addDisk(vmi, r)
	}
	for range r.IntN(6) {
		addNIC(vmi, r)
	}
	flip := func() bool { return r.IntN(2) == 0 }
	d := &vmi.Spec.Domain.Devices
	d.AutoattachGraphicsDevice, d.AutoattachMemBalloon, d.AutoattachSerialConsole = ptr(flip()), ptr(flip()), ptr(flip())
	d.AutoattachVSOCK, d.DisableHotplug = ptr(flip()), flip()
	if flip() {
		d.Rng = &v1.Rng{}
	}
	if flip() {
		vmi.Spec.Domain.CPU.MaxSockets = 4
	}
	return vmi
}

var nextName int

func addDisk(vmi *v1.VirtualMachineInstance, r *rand.Rand) {
	buses := hardware.BusesFor(vmi.Spec.Architecture, hardware.Disk)
	nextName++
	name := fmt.Sprintf("d%d", nextName)
	at := r.IntN(len(vmi.Spec.Domain.Devices.Disks) + 1)
	vmi.Spec.Domain.Devices.Disks = insert(vmi.Spec.Domain.Devices.Disks, at, disk(name, buses[r.IntN(len(buses))]))
	vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{}}})
}

func addNIC(vmi *v1.VirtualMachineInstance, r *rand.Rand) {
	models := hardware.ModelsFor(vmi.Spec.Architecture)
	nextName++
	nic := v1.Interface{Name: fmt.Sprintf("n%d", nextName), Model: models[r.IntN(len(models))],
		MacAddress: fmt.Sprintf("52:54:00:00:%02x:%02x", nextName>>8&255, nextName&255)}
	nic.Masquerade = &v1.InterfaceMasquerade{}
	at := r.IntN(len(vmi.Spec.Domain.Devices.Interfaces) + 1)
	vmi.Spec.Domain.Devices.Interfaces = insert(vmi.Spec.Domain.Devices.Interfaces, at, nic)
}

func insert[T any](list []T, at int, e T) []T {
	out := append([]T{}, list[:at]...)
	return append(append(out, e), list[at:]...)
}

// edit adds or removes one device, anywhere in its list.
func edit(vmi *v1.VirtualMachineInstance, r *rand.Rand) {
	d := &vmi.Spec.Domain.Devices
	switch n := r.IntN(4); {
	case n == 0 && len(d.Disks) > 0:
		at := r.IntN(len(d.Disks))
		d.Disks = append(append([]v1.Disk{}, d.Disks[:at]...), d.Disks[at+1:]...)
	case n == 1 && len(d.Interfaces) > 0:
		at := r.IntN(len(d.Interfaces))
		d.Interfaces = append(append([]v1.Interface{}, d.Interfaces[:at]...), d.Interfaces[at+1:]...)
	case n == 2:
		addNIC(vmi, r)
	default:
		addDisk(vmi, r)
	}
}

// TestNothingMoves edits random guests again and again, each boot with the record of the one before: every device that stays
// keeps its address and name, no two devices share one, and an unchanged guest is the same to the byte. The cluster's
// defaults and the host's QEMU are different ones at every boot.
func TestNothingMoves(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range generated() {
		vmi := random(t, r)
		dom := frontends.Rendered(t, frontends.Input(vmi))
		for boot := range 4 {
			record := abi.Freeze(dom, "v1")
			in := frontends.Input(vmi)
			in.Frozen = &record
			in.Defaults = config.FrontendDefaults{Version: "v9", FreePorts: boot * 5, EFIVideo: "vga",
				Video: map[string]string{"amd64": "bochs", "arm64": "ramfb", "s390x": "virtio"}}
			in.Facts = frontend.Facts{Machines: map[string]string{"q35": "pc-q35-99.9", "virt": "virt-99.9", "s390-ccw-virtio": "s390-ccw-virtio-99.9"}}
			same := frontends.Rendered(t, in)
			if diff := cmp.Diff(frontends.Printed(t, dom), frontends.Printed(t, same)); diff != "" {
				t.Fatalf("an unchanged guest changes:\n%s", diff)
			}
			edit(vmi, r)
			in.VMI = vmi
			next := frontends.Rendered(t, in)
			before, after := addresses(t, dom), addresses(t, next)
			for key, was := range before {
				if is, still := after[key]; still && was != is {
					t.Fatalf("%s moves from '%s' to '%s'\n%s", key, was, is, frontends.Printed(t, next))
				}
			}
			dom = next
		}
	}
}

// TestGoneWithoutTrace: devices that come and go again leave the guest as it was, to the byte; a port for each that ever was would
// fill the root bus. Not in parallel, since the names of new devices are counted.
func TestGoneWithoutTrace(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range generated() {
		vmi := random(t, r)
		in := frontends.Input(vmi.DeepCopy())
		dom := frontends.Rendered(t, in)
		before := frontends.Printed(t, dom)
		for range 3 {
			for _, guest := range []*v1.VirtualMachineInstance{withMore(vmi, r), vmi} {
				record := abi.Freeze(dom, "v1")
				in.VMI, in.Frozen = guest.DeepCopy(), &record
				dom = frontends.Rendered(t, in)
			}
			if diff := cmp.Diff(before, frontends.Printed(t, dom)); diff != "" {
				t.Fatalf("what came and went has changed the guest:\n%s", diff)
			}
		}
	}
}

// withMore is a guest with a disk and a network card more.
func withMore(vmi *v1.VirtualMachineInstance, r *rand.Rand) *v1.VirtualMachineInstance {
	out := vmi.DeepCopy()
	addDisk(out, r)
	addNIC(out, r)
	return out
}

// addresses of all devices, each proved to be the only one there.
func addresses(t testing.TB, dom *libvirtxml.Domain) map[string]string {
	t.Helper()
	all, owner := map[string]string{}, map[string]string{}
	for _, d := range abi.Devices(dom) {
		a := abi.FromLibvirt(*d.Address)
		text := a.PCI + a.Drive + a.USB + a.Serial + a.CCW
		if text == "" {
			continue
		}
		place := d.Bus + text // a drive address is one per bus
		if d.Kind != "disk" || a.Drive == "" {
			place = text
		}
		if owner[place] != "" {
			t.Fatalf("'%s' and '%s' are both at '%s'", owner[place], d.Key(), text)
		}
		owner[place] = d.Key()
		if d.Disk != nil {
			text += " " + d.Disk.Target.Dev
			if owner[d.Disk.Target.Dev] != "" {
				t.Fatalf("'%s' and '%s' are both '%s'", owner[d.Disk.Target.Dev], d.Key(), d.Disk.Target.Dev)
			}
			owner[d.Disk.Target.Dev] = d.Key()
		}
		all[d.Key()] = text
	}
	return all
}

// TestPrint: printing is stable, and what is printed reads back to the same.
func TestPrint(t *testing.T) {
	t.Parallel()
	for name, in := range frontends.All(t) {
		first := frontends.Printed(t, frontends.Rendered(t, in))
		if again := frontends.Printed(t, frontends.Rendered(t, in)); again != first {
			t.Errorf("%s: two renderings differ:\n%s", name, cmp.Diff(first, again))
		}
		var back libvirtxml.Domain
		if err := back.Unmarshal(first); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(first, frontends.Printed(t, &back)); diff != "" {
			t.Errorf("%s: reads back differently:\n%s", name, diff)
		}
	}
}

// TestInputStays: neither the VMI nor the record is modified.
func TestInputStays(t *testing.T) {
	t.Parallel()
	for name, in := range frontends.All(t) {
		record := abi.Freeze(frontends.Rendered(t, in), "v1")
		in.Frozen = &record
		vmi, frozen := in.VMI.DeepCopy(), abi.Freeze(frontends.Rendered(t, in), "v1")
		frontends.Rendered(t, in)
		if diff := cmp.Diff(vmi, in.VMI); diff != "" {
			t.Errorf("%s: the VMI changed:\n%s", name, diff)
		}
		if diff := cmp.Diff(frozen, record); diff != "" {
			t.Errorf("%s: a replay gives another record, or the record changed:\n%s", name, diff)
		}
	}
}
