package abi

import (
	"cmp"
	"slices"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// What the firmware boots. A domain has either <boot order> of devices, or <boot dev='hd'>, which means the first disk. If only one disk is booted, both mean
// the same to the guest and have the same digest. libvirt: qemuBuildDisksCommandLine and virDomainDiskInsert.

// hd is libvirt's word for the first disk.
const hd = "hd"

// BootDisk returns the name of the disk that the firmware tries first. It is empty if the firmware tries another device first, such as a CD-ROM, or has
// no disk.
func BootDisk(dom *libvirtxml.Domain) string {
	if disk := bootDisk(dom); disk != nil {
		return Name("disk", disk.Alias)
	}
	return ""
}

// BootFrom replaces <boot dev> by <boot order='1'> of the disk with a name. It changes nothing if a device has a boot order already, if the firmware tries that
// disk first as it is, or if the domain has no such disk.
func BootFrom(dom *libvirtxml.Domain, name string) {
	if dom.Devices == nil || dom.OS == nil || BootDisk(dom) == name {
		return
	}
	for i := range dom.Devices.Disks {
		if d := &dom.Devices.Disks[i]; isBootable(d) && Name("disk", d.Alias) == name {
			d.Boot, dom.OS.BootDevices = &libvirtxml.DomainDeviceBoot{Order: 1}, nil
			return
		}
	}
}

// OrderBoot replaces <boot dev> of a domain by <boot order> of the devices that it means. It changes nothing if a device has a boot order already. libvirt:
// qemuBuildDisksCommandLine and qemuBuildNetCommandLine.
func OrderBoot(dom *libvirtxml.Domain) {
	if dom.Devices == nil || dom.OS == nil || bootOrdersOf(dom.Devices).devices > 0 {
		return
	}
	for i, device := range dom.OS.BootDevices {
		order := &libvirtxml.DomainDeviceBoot{Order: uint(i) + 1} //nolint:gosec // libvirt knows four devices
		switch device.Dev {
		case "network":
			if len(dom.Devices.Interfaces) > 0 {
				dom.Devices.Interfaces[0].Boot = order
			}
		case hd:
			if disk := firstDisk(dom.Devices.Disks, isBootable); disk != nil {
				disk.Boot = order
			}
		case "cdrom":
			if disk := firstDisk(dom.Devices.Disks, func(d *libvirtxml.DomainDisk) bool { return d.Device == "cdrom" }); disk != nil {
				disk.Boot = order
			}
		}
	}
	dom.OS.BootDevices = nil
}

// bootDisk returns the disk that the firmware tries first, or nil.
func bootDisk(dom *libvirtxml.Domain) *libvirtxml.DomainDisk {
	if dom.Devices == nil {
		return nil
	}
	switch o := bootOrdersOf(dom.Devices); {
	case o.devices > 0 && o.first != nil && isBootable(o.first):
		return o.first
	case o.devices == 0 && bootsFirstDisk(dom):
		return firstDisk(dom.Devices.Disks, isBootable)
	}
	return nil
}

// bootsFirstDisk reports whether a domain leaves the choice to libvirt: it has no <boot order>, and <boot dev='hd'>.
func bootsFirstDisk(dom *libvirtxml.Domain) bool {
	return dom.OS != nil && len(dom.OS.BootDevices) == 1 && dom.OS.BootDevices[0].Dev == hd
}

// bootOrders are the devices with a <boot order>.
type bootOrders struct {
	devices int
	// first is the disk with the lowest order of all devices; nil if that is another device.
	first *libvirtxml.DomainDisk
	// key names the device with the lowest order.
	key    string
	lowest uint
}

func (o *bootOrders) addOrder(boot *libvirtxml.DomainDeviceBoot, kind string, alias *libvirtxml.DomainAlias, disk *libvirtxml.DomainDisk) {
	if boot == nil {
		return
	}
	if o.devices == 0 || boot.Order < o.lowest {
		o.lowest, o.first, o.key = boot.Order, disk, record.Key(kind, Name(kind, alias))
	}
	o.devices++
}

func bootOrdersOf(l *libvirtxml.DomainDeviceList) (o bootOrders) {
	for i := range l.Disks {
		o.addOrder(l.Disks[i].Boot, "disk", l.Disks[i].Alias, &l.Disks[i])
	}
	for i := range l.Interfaces {
		o.addOrder(l.Interfaces[i].Boot, "interface", l.Interfaces[i].Alias, nil)
	}
	for i := range l.Hostdevs {
		o.addOrder(l.Hostdevs[i].Boot, "hostdev", l.Hostdevs[i].Alias, nil)
	}
	for i := range l.Filesystems {
		o.addOrder(l.Filesystems[i].Boot, "filesystem", l.Filesystems[i].Alias, nil)
	}
	for i := range l.RedirDevs {
		o.addOrder(l.RedirDevs[i].Boot, "redirdev", l.RedirDevs[i].Alias, nil)
	}
	return o
}

// firstDisk returns what <boot dev='hd'> means, with isBootable as counts: libvirt keeps the disks of one bus together, in the order of their target names, and
// the buses in the order in which they first appear. CD-ROMs and floppies are no 'hd'.
func firstDisk(disks []libvirtxml.DomainDisk, counts func(*libvirtxml.DomainDisk) bool) *libvirtxml.DomainDisk {
	var buses []string
	for i := range disks {
		if bus := busOf(&disks[i]); !slices.Contains(buses, bus) {
			buses = append(buses, bus)
		}
	}
	return leastDisk(disks, counts, func(a, b *libvirtxml.DomainDisk) int {
		return cmp.Or(cmp.Compare(slices.Index(buses, busOf(a)), slices.Index(buses, busOf(b))), cmp.Compare(targetNumber(a), targetNumber(b)))
	})
}

// usualDisk returns the disk that most guests boot: that with the lowest target name, on bus virtio if there is one. It does not depend on the order of the
// list, so that the text of a domain that boots it has no need to name it.
func usualDisk(disks []libvirtxml.DomainDisk) *libvirtxml.DomainDisk {
	others := func(d *libvirtxml.DomainDisk) int {
		if busOf(d) == "virtio" {
			return 0
		}
		return 1
	}
	return leastDisk(disks, isBootable, func(a, b *libvirtxml.DomainDisk) int {
		return cmp.Or(cmp.Compare(others(a), others(b)), cmp.Compare(busOf(a), busOf(b)), cmp.Compare(targetNumber(a), targetNumber(b)))
	})
}

// leastDisk returns the first of the disks that count, by an order; nil without one.
func leastDisk(
	disks []libvirtxml.DomainDisk, counts func(*libvirtxml.DomainDisk) bool, compare func(a, b *libvirtxml.DomainDisk) int,
) (first *libvirtxml.DomainDisk) {
	for i := range disks {
		if d := &disks[i]; counts(d) && (first == nil || compare(d, first) < 0) {
			first = d
		}
	}
	return first
}

// isBootable reports whether libvirt counts a disk as 'hd'.
func isBootable(d *libvirtxml.DomainDisk) bool {
	return d.Device == "" || d.Device == "disk" || d.Device == "lun"
}

func busOf(d *libvirtxml.DomainDisk) string {
	if d.Target == nil {
		return ""
	}
	return d.Target.Bus
}

// targetNumber is the number of the letters in a target name: 0 for vda, 26 for vdaa. A name of another form comes last.
func targetNumber(d *libvirtxml.DomainDisk) uint {
	if d.Target == nil {
		return address.Unrecorded
	}
	target, err := address.ParseTarget(d.Target.Dev)
	if err != nil {
		return address.Unrecorded
	}
	return target.Number
}

// oneBoot returns a domain in the form in which it has its digest and is compared: if only one disk is booted, no device has an order, and <boot dev> says
// 'hd' for the usual disk and else the disk's key, which libvirt does not know. Other domains are returned as they are. The form is for one comparison: it does
// not mean to libvirt what the domain means.
func oneBoot(dom *libvirtxml.Domain) *libvirtxml.Domain {
	if dom.Devices == nil || dom.OS == nil {
		return dom
	}
	o := bootOrdersOf(dom.Devices)
	disk := o.first
	switch {
	case o.devices == 0 && bootsFirstDisk(dom):
		if disk = firstDisk(dom.Devices.Disks, isBootable); disk == nil || disk == usualDisk(dom.Devices.Disks) {
			return dom
		}
	case o.devices != 1 || disk == nil || !isBootable(disk) || len(dom.OS.BootDevices) > 0:
		return dom
	}
	dev := hd
	if disk != usualDisk(dom.Devices.Disks) {
		dev = record.Key("disk", Name("disk", disk.Alias))
	}
	out, platform, devices := *dom, *dom.OS, *dom.Devices
	platform.BootDevices = []libvirtxml.DomainBootDevice{{Dev: dev}}
	devices.Disks = slices.Clone(devices.Disks)
	for i := range devices.Disks {
		devices.Disks[i].Boot = nil
	}
	out.OS, out.Devices = &platform, &devices
	return &out
}

// bootWords prints the devices that two domains in the form of oneBoot boot first, if they differ, and whether only one of the domains shows a boot menu.
func bootWords(before, after *libvirtxml.Domain) (words string) {
	if old, now := bootedFirst(before), bootedFirst(after); old != now {
		words = " from " + describeKey(old) + " to " + describeKey(now)
	}
	// Stage 2 gives a menu only to guests with startStrategy Paused.
	switch old, now := hasBootMenu(before), hasBootMenu(after); {
	case now && !old:
		words += ": a boot menu is added, as the guest starts paused"
	case old && !now:
		words += ": the boot menu is removed, as the guest does not start paused"
	}
	return words
}

func hasBootMenu(dom *libvirtxml.Domain) bool { return dom.OS != nil && dom.OS.BootMenu != nil }

// describeKey names a device in words, by its key.
func describeKey(key string) string {
	if key == "" {
		return "none"
	}
	kind, name := record.SplitKey(key)
	return kind + " " + quoteOrNone(name)
}

// bootedFirst returns the key of the device that a domain in the form of oneBoot boots first; empty for none.
func bootedFirst(dom *libvirtxml.Domain) string {
	if dom.Devices == nil || dom.OS == nil {
		return ""
	}
	switch o := bootOrdersOf(dom.Devices); {
	case o.devices > 0:
		return o.key
	case len(dom.OS.BootDevices) != 1:
		return ""
	case dom.OS.BootDevices[0].Dev != hd:
		return dom.OS.BootDevices[0].Dev
	}
	if disk := usualDisk(dom.Devices.Disks); disk != nil {
		return record.Key("disk", Name("disk", disk.Alias))
	}
	return ""
}

// bootMoves reports whether the firmware of the later domain boots another disk, though no device of that domain has an order: its list of disks was edited,
// and nobody asked for another boot disk.
func bootMoves(before, after *libvirtxml.Domain) bool {
	was, is := BootDisk(before), BootDisk(after)
	return was != "" && is != "" && was != is && bootsFirstDisk(after)
}
