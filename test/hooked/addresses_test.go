package hooked

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/kubevirt"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/nightly"
	v1 "kubevirt.io/api/core/v1"
)

// tally counts what moves: devices, of these virtio disks and interfaces, and the guests that have one. set is how many addresses were set.
type tally struct{ devices, disks, interfaces, guests, set int }

// add counts the moved devices of a guest.
func (n *tally) add(c comparison) {
	n.devices += len(c.moved)
	if len(c.moved) > 0 {
		n.guests++
	}
	for _, moved := range c.moved {
		switch key, places, _ := strings.Cut(moved, " "); {
		case strings.HasPrefix(key, "disk.") && strings.Contains(places, "0000:"):
			n.disks++
		case strings.HasPrefix(key, "interface."):
			n.interfaces++
		}
	}
}

func (n tally) String() string {
	return fmt.Sprintf("%d, in %d guests, of which %d are virtio disks and %d interfaces", n.devices, n.guests, n.disks, n.interfaces)
}

// placed defines a guest without the hook, with the recorded addresses that admission sets. No device with such an address moves, and no root port above it.
func (l *launcher) placed(t *testing.T, seed uint64, later *v1.VirtualMachineInstance, frozen *record.Record, n *tally) {
	t.Helper()
	vmi := later.DeepCopy()
	before := kubevirt.Chosen(vmi)
	virtcontroller.KeepAddresses(vmi, frozen)
	xml, _, err := l.define(t, vmi, hooks{})
	if err != nil {
		t.Errorf("guest %d does not start with its recorded addresses: %v", seed, err)
		return
	}
	now := captured(t, xml, nil)
	for key := range kubevirt.Chosen(vmi) {
		was, ok := frozen.Devices[key]
		if !ok || before[key] { // the second key of an interface, or an address of the user's
			continue
		}
		n.set++
		if is := now.Devices[key]; is.PCI != was.PCI {
			t.Errorf("guest %d: %s has moved from %s to %s", seed, key, was, is)
		}
		at, err := address.ParsePCI(was.PCI)
		port := record.ControllerKey("pci", at.Bus)
		if err != nil || now.Devices[port].PCI != frozen.Devices[port].PCI {
			t.Errorf("guest %d: the root port above %s has moved from %s to %s", seed, key, frozen.Devices[port], now.Devices[port])
		}
	}
	n.add(same(frozen, now))
}

// TestAddressesOfUnchanged: addresses change nothing about a guest that nobody has edited, its PCI controllers included.
func TestAddressesOfUnchanged(t *testing.T) { addressesOfUnchanged(t, few) }

// TestAddressesOfUnchanged200 is TestAddressesOfUnchanged with more guests.
func TestAddressesOfUnchanged200(t *testing.T) {
	nightly.Only(t)
	addressesOfUnchanged(t, 200)
}

func addressesOfUnchanged(t *testing.T, guests int) {
	l := start(t)
	for seed := range uint64(guests) {
		vmi := explicit(t, guest(rand.New(rand.NewPCG(seed, 9)))) //nolint:gosec // to be repeated
		frozen := captured(t, l.defined(t, vmi, hooks{}), nil)
		virtcontroller.KeepAddresses(vmi, frozen)
		if changes := record.Compare(*frozen, *captured(t, l.defined(t, vmi, hooks{}), nil)); len(changes) > 0 {
			t.Errorf("guest %d: %v", seed, changes)
		}
	}
}

// boards are edits that move root ports or bridges, and leave the machine otherwise as it is.
var boards = map[string]func(*v1.VirtualMachineInstance){
	"graphics": func(vmi *v1.VirtualMachineInstance) {
		off := vmi.Spec.Domain.Devices.AutoattachGraphicsDevice == nil || *vmi.Spec.Domain.Devices.AutoattachGraphicsDevice
		off = !off
		vmi.Spec.Domain.Devices.AutoattachGraphicsDevice = &off
	},
	"watchdog": func(vmi *v1.VirtualMachineInstance) {
		if vmi.Spec.Domain.Devices.Watchdog == nil {
			optional[1](vmi)
		} else {
			vmi.Spec.Domain.Devices.Watchdog = nil
		}
	},
	"e1000": func(vmi *v1.VirtualMachineInstance) {
		addInterface(vmi, "old", 0)
		vmi.Spec.Domain.Devices.Interfaces[0].Model = "e1000"
	},
	"transitional": func(vmi *v1.VirtualMachineInstance) {
		on := true
		vmi.Spec.Domain.Devices.UseVirtioTransitional = &on
	},
	"flat": func(vmi *v1.VirtualMachineInstance) {
		vmi.Annotations = map[string]string{v1.PlacePCIDevicesOnRootComplex: "true"}
	},
	"slot count": func(vmi *v1.VirtualMachineInstance) {
		vmi.Annotations = map[string]string{v1.PciTopologyVersionAnnotation: "v2", v1.PciInterfaceSlotCountAnnotation: "11"}
	},
}

// TestAddressesOnOtherBoards: a guest starts with the addresses of a record also where the board has changed since, in either direction, and finds the devices
// at their addresses.
func TestAddressesOnOtherBoards(t *testing.T) {
	l := start(t)
	for name, edit := range boards {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				vmi := guest(rand.New(rand.NewPCG(seed, 10))) //nolint:gosec // to be repeated
				other := vmi.DeepCopy()
				edit(other)
				l.starts(t, explicit(t, vmi), explicit(t, other))
				l.starts(t, explicit(t, other), explicit(t, vmi))
			}
		})
	}
}

// TestAddressesOnARM: guests of arm64 with the same edits keep their addresses, too.
func TestAddressesOnARM(t *testing.T) {
	l := start(t)
	moved, addresses := tally{}, tally{}
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 13)) //nolint:gosec // to be repeated
		vmi := guest(random)
		vmi.Spec.Architecture, vmi.Spec.Domain.CPU = "arm64", nil
		vmi.Spec.Domain.Devices.Watchdog, vmi.Spec.Domain.Devices.Sound = nil, nil // only amd64 has them
		frozen := captured(t, l.defined(t, explicit(t, vmi), hooks{}), nil)
		change, _ := edited(vmi, random)
		later := explicit(t, change)
		moved.add(same(frozen, captured(t, l.defined(t, later, hooks{}), nil)))
		l.placed(t, seed, later, frozen, &addresses)
	}
	t.Logf("KubeVirt alone moves %s; with pciAddress (%d addresses) %s", moved, addresses.set, addresses)
	if addresses.set == 0 || moved.disks+moved.interfaces == 0 || addresses.disks+addresses.interfaces > 0 {
		t.Error("the edits prove nothing, or an interface or virtio disk has moved")
	}
}

// starts defines a guest, and then another one with the addresses of the first.
func (l *launcher) starts(t *testing.T, first, second *v1.VirtualMachineInstance) {
	t.Helper()
	l.startsWith(t, captured(t, l.defined(t, first, hooks{}), nil), second)
}

// startsWith defines a guest with the addresses of a record, and returns how many it uses.
func (l *launcher) startsWith(t *testing.T, frozen *record.Record, vmi *v1.VirtualMachineInstance) (set int) {
	t.Helper()
	vmi = vmi.DeepCopy()
	virtcontroller.KeepAddresses(vmi, frozen)
	now := captured(t, l.defined(t, vmi, hooks{}), nil)
	for key := range kubevirt.Chosen(vmi) {
		if was, ok := frozen.Devices[key]; ok {
			set++
			if is := now.Devices[key]; is.PCI != was.PCI {
				t.Errorf("%s has moved from %s to %s", key, was, is)
			}
		}
	}
	return set
}

// TestAddressesOfHostileRecords: whatever passes record.Check, the guest starts.
func TestAddressesOfHostileRecords(t *testing.T) {
	l := start(t)
	random := rand.New(rand.NewPCG(1, 11)) //nolint:gosec // to be repeated
	vmi := guest(random)
	for i := range 8 {
		addInterface(vmi, fmt.Sprintf("lan%d", i), 0)
		addDisk(vmi, random, fmt.Sprintf("data%d", i), 0)
		vmi.Spec.Domain.Devices.Disks[0].Disk.Bus = v1.DiskBusVirtio
	}
	later := explicit(t, vmi)
	boot := captured(t, l.defined(t, later, hooks{}), nil)
	for n := range uint64(6) {
		frozen := hostile(rand.New(rand.NewPCG(n, 12)), boot, int(n)) //nolint:gosec // to be repeated
		if err := record.Check(frozen); err != nil {
			t.Fatal(err)
		}
		if set := l.startsWith(t, frozen, later); n == 0 && set != 0 || n == 5 && set < 3 {
			t.Errorf("record %d: %d addresses are used", n, set)
		}
	}
}

// hostile is a record of 240 root ports, as libvirt would number them, with the devices anywhere: each two at one place at first, each behind a port at last.
func hostile(random *rand.Rand, boot *record.Record, n int) *record.Record {
	out := &record.Record{Defaults: boot.Defaults, Digest: boot.Digest, Machine: boot.Machine, Devices: map[string]record.Address{}}
	for i := range uint(address.MaxPorts) {
		slot := 2 + i/8
		if slot > 0x1f {
			break
		}
		index := i + 1
		out.Devices[record.ControllerKey("pci", index)] = record.Address{PCI: address.PCI{Slot: slot, Function: i % 8}.String(), Index: &index}
	}
	var keys []string
	for key := range boot.Devices {
		if _, port := record.Port(key); !port && (strings.HasPrefix(key, "disk.") || strings.HasPrefix(key, "interface.")) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for i, key := range keys {
		at := address.PCI{Bus: uint(random.IntN(200))}
		switch n {
		case 0:
			at.Bus = uint(1 + i%2)
		case 1, 2:
			at.Bus, at.Slot, at.Function = at.Bus%40, uint(random.IntN(3)), uint(random.IntN(2))
		case 4: // root ports where the machine has its own devices
			at.Bus = uint(0xf0 - i)
		case 5:
			at.Bus = uint(0x7f - i)
		}
		out.Devices[key] = record.Address{PCI: at.String()}
	}
	return out
}
