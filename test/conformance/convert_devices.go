package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"libvirt.org/go/libvirtxml"
)

// What Kiln gives each device, and the reference only those for which the user wrote it.
const (
	addressOf = "address of "
	macOf     = "mac of interface "
)

// seenDevices names each device by kind and name.
// Names are those that the user gave, which both documents have in their aliases.
func seenDevices(l *libvirtxml.DomainDeviceList, note fact) {
	for _, d := range l.Disks {
		driver := d.Driver
		if driver == nil {
			// A disk without a driver element has the driver's defaults.
			driver = &libvirtxml.DomainDiskDriver{}
		}
		note("disk "+userAlias(d.Alias), d.Device, d.Target.Bus, d.Model, d.Target.Tray == "open", diskAccess(d),
			bootOrder(d.Boot), blockSizes(d.BlockIO), namedNumber("queues", driver.Queues), driver.IOMMU)
		// A fact of its own, because Kiln gives an address to every device and the reference only where the user wrote one.
		note(addressOf+"disk "+userAlias(d.Alias), userPCIAddress(d.Address))
		note("serial of disk "+userAlias(d.Alias), d.Serial)
	}
	for _, n := range l.Interfaces {
		driver := n.Driver
		if driver == nil {
			driver = &libvirtxml.DomainInterfaceDriver{}
		}
		note("interface "+userAlias(n.Alias), n.Model.Type, queueCount(driver.Queues), driver.IOMMU)
		note(addressOf+"interface "+userAlias(n.Alias), userPCIAddress(n.Address))
		note("boot order of interface "+userAlias(n.Alias), bootOrder(n.Boot))
		if n.ROM != nil {
			note("rom of interface "+userAlias(n.Alias), n.ROM.Enabled)
		}
		// One spelling: KubeVirt accepts '-' between the bytes, and capital letters.
		if n.MAC != nil {
			note(macOf+userAlias(n.Alias), strings.ToLower(strings.ReplaceAll(n.MAC.Address, "-", ":")))
		}
		if n.Link != nil {
			note("link of interface "+userAlias(n.Alias), n.Link.State)
		}
		if n.ACPI != nil {
			note("acpi index of interface "+userAlias(n.Alias), n.ACPI.Index)
		}
	}
	for _, h := range l.Hostdevs {
		note("host device "+hostName(h.Alias), hostdevFacts(h), bootOrder(h.Boot))
		note(addressOf+"host device "+hostName(h.Alias), userPCIAddress(h.Address))
	}
	// A virtiofs file system is known to the guest by its tag, which libvirt has as the target's directory.
	for _, f := range l.Filesystems {
		note("filesystem "+f.Target.Dir, f.Driver.Type)
	}
	seenConsoles(l, note)
	seenSingles(l, note)
}

// seenConsoles notes channels, serial ports, graphics, video, inputs, sound and USB redirection. Those without names are numbered, or counted by kind.
func seenConsoles(l *libvirtxml.DomainDeviceList, note fact) {
	for _, c := range l.Channels {
		note("channel "+c.Target.VirtIO.Name, "given")
	}
	for i := range l.Serials {
		note(fmt.Sprintf("serial port %d", i), "given")
	}
	for i := range l.Graphics {
		note(fmt.Sprintf("graphics %d", i), "vnc", l.Graphics[i].VNC != nil)
	}
	for i, v := range l.Videos {
		note(fmt.Sprintf("video %d", i), v.Model.Type)
	}
	// Two inputs of one kind cannot be told apart by a guest, so that they are counted.
	inputs := map[string]int{}
	for _, in := range l.Inputs {
		inputs[in.Type+" on "+in.Bus]++
	}
	for kind, n := range inputs {
		note("input "+kind, n)
	}
	for _, s := range l.Sounds {
		note("sound", s.Model)
	}
	if n := len(l.RedirDevs); n > 0 {
		note("usb redirection", n)
	}
}

// seenSingles are devices of which there is one, and controllers of which the first says what there is.
func seenSingles(l *libvirtxml.DomainDeviceList, note fact) {
	for _, w := range l.Watchdogs {
		note("watchdog", w.Model, w.Action)
	}
	for _, t := range l.TPMs {
		note("tpm", t.Model)
	}
	// KubeVirt sets the driver's attribute 'iommu' for guests with launch security.
	for _, r := range l.RNGs {
		note("rng", r.Model, r.Driver != nil && r.Driver.IOMMU == "on")
	}
	for _, p := range l.Panics {
		note("panic "+cmp.Or(p.Model, "isa"), "given")
	}
	if b := l.MemBalloon; b != nil {
		// The period of the balloon's statistics is for the host, and not compared.
		note("balloon", b.Model, b.FreePageReporting, b.Driver != nil && b.Driver.IOMMU == "on")
	}
	for _, i := range l.IOMMUs {
		note("iommu", i.Model)
	}
	if v := l.VSock; v != nil {
		note("vsock", v.Model)
	}
	for _, c := range l.Controllers {
		if c.PCI != nil && c.PCI.Hole64 != nil {
			note("window of large devices", toKiB(uint(c.PCI.Hole64.Size), c.PCI.Hole64.Unit))
		}
		if c.Index != nil && *c.Index == 0 && slices.Contains([]string{"usb", "scsi", "virtio-serial"}, c.Type) {
			model := c.Model
			if c.Type == "virtio-serial" {
				model = cmp.Or(model, "virtio") // the only one of s390x
			}
			note("controller "+c.Type, model, c.Driver != nil && c.Driver.IOMMU == "on")
		}
	}
}

// userAlias returns the name that the user gave to a device. libvirt demands that aliases of users begin with 'ua-' (Domain XML format).
func userAlias(a *libvirtxml.DomainAlias) string {
	if a == nil {
		return ""
	}
	name := strings.TrimPrefix(a.Name, "ua-")
	for _, kind := range []string{"interface", "filesystem"} { // of two devices of one name
		name = strings.TrimPrefix(name, kind+"_")
	}
	return name
}

// hostName leaves out what the reference puts before names.
func hostName(a *libvirtxml.DomainAlias) string {
	name := abi.Name("hostdev", a)
	for _, prefix := range []string{"hostdevice-", "gpu-", "sriov-"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}

// hostdevFacts leaves out the displays of GPUs: the cases gave the reference's converter host devices that were rendered already,
// without any.
func hostdevFacts(h libvirtxml.DomainHostdev) string {
	switch {
	case h.SubsysPCI != nil:
		return "pci"
	case h.SubsysMDev != nil:
		return h.SubsysMDev.Model
	case h.SubsysUSB != nil:
		return "usb"
	}
	// A kind of which nothing is compared but that it is there.
	return "another"
}

// diskAccess says whether a disk is read-only or shared.
func diskAccess(d libvirtxml.DomainDisk) (words string) {
	if d.ReadOnly != nil {
		words = "readonly "
	}
	if d.Shareable != nil {
		words += "shareable"
	}
	return words
}

// bootOrder returns the boot order of a device, from 1; empty where it has none.
func bootOrder(b *libvirtxml.DomainDeviceBoot) string {
	if b == nil {
		return ""
	}
	return fmt.Sprint("boot ", b.Order)
}

// namedNumber returns a name and its number; empty if the number is nil, which is not the same as 0.
func namedNumber(name string, n *uint) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(name, " ", *n)
}

// queueCount returns the number of queues of a card. libvirt treats one queue as none.
// It has no fact for one queue, so that 1 and an absent number are equal.
func queueCount(n uint) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprint("queues ", n)
}

// blockSizes returns the logical and physical block size and the granularity of discard, in bytes.
func blockSizes(b *libvirtxml.DomainDiskBlockIO) string {
	if b == nil {
		return ""
	}
	return fmt.Sprint("blocks ", b.LogicalBlockSize, " ", b.PhysicalBlockSize, " ", namedNumber("discard", b.DiscardGranularity))
}

// userPCIAddress returns the PCI address that the user wrote: the others are the allocator's.
func userPCIAddress(a *libvirtxml.DomainAddress) string {
	if a == nil || a.PCI == nil {
		return ""
	}
	return abi.FromLibvirt(a).PCI
}
