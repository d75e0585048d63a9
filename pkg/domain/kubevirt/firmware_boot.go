package kubevirt

import (
	"slices"
	"strconv"

	"github.com/beevik/etree"
	"github.com/kilnvm/kiln/pkg/record"
)

// What the firmware boots. Where no device of a VMI has bootOrder, KubeVirt writes <boot dev='hd'>, by which libvirt boots the first disk of the list. That is
// another disk after the list was edited.

// bootRecordedDisk has the firmware boot the recorded disk if the domain still has it and no device has an order.
func (g *guest) bootRecordedDisk() {
	at := slices.IndexFunc(g.devices, func(d *device) bool { return d.key == record.Key("disk", g.frozen.BootDisk) && isBootable(d.Element) })
	if g.frozen.BootDisk == "" || at < 0 || g.lowestOrder() != nil {
		return
	}
	if platform := g.root.SelectElement("os"); platform != nil {
		for _, boot := range platform.SelectElements("boot") {
			platform.RemoveChild(boot)
		}
	}
	g.devices[at].CreateElement("boot").CreateAttr("order", "1")
}

// bootDisk returns the name of the disk that the firmware of a domain in libvirt's own order tries first; empty if that is another device.
func (g *guest) bootDisk() string {
	first := g.lowestOrder()
	if boot := g.root.FindElement("os/boot"); first == nil && boot != nil && boot.SelectAttrValue("dev", "") == "hd" {
		if at := slices.IndexFunc(g.devices, func(d *device) bool { return isBootable(d.Element) }); at >= 0 {
			first = g.devices[at]
		}
	}
	if first == nil || !isBootable(first.Element) {
		return ""
	}
	_, name := record.SplitKey(first.key)
	return name
}

// lowestOrder returns the device that the firmware tries first by <boot order>; nil if no device has one.
func (g *guest) lowestOrder() (first *device) {
	lowest := uint64(0)
	for _, d := range g.devices {
		boot := d.SelectElement("boot")
		if boot == nil {
			continue
		}
		order, err := strconv.ParseUint(boot.SelectAttrValue("order", ""), 10, 32)
		if err == nil && (first == nil || order < lowest) {
			first, lowest = d, order
		}
	}
	return first
}

// isBootable reports whether an element is what libvirt counts as 'hd'.
func isBootable(e *etree.Element) bool {
	return e.Tag == "disk" && slices.Contains([]string{"disk", "lun"}, e.SelectAttrValue("device", "disk"))
}
