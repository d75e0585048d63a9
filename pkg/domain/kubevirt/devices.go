package kubevirt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
)

// Finds the devices of a domain and their entries in the record.
// KubeVirt: virtwrap/converter names devices, virtwrap/device/hostdevice host devices.

// device is a device of a domain other than a PCI controller.
type device struct {
	*etree.Element
	// key is the key of the device in the record; empty for a device without name and entry.
	key string
	// recorded is its entry.
	recorded record.Address
	// new means that the record has no place for it.
	new bool
}

// String names the device in errors.
func (d *device) String() string {
	kind, name := record.SplitKey(d.key)
	return kind + " '" + name + "'"
}

// busName returns the bus of a disk, an input or a redirected device.
func (d *device) busName() string {
	if target := d.SelectElement("target"); d.Tag == "disk" && target != nil {
		return target.SelectAttrValue("bus", "")
	}
	return d.SelectAttrValue("bus", "")
}

// modelName returns the model of the device, which some elements have as an attribute and some as a child.
func (d *device) modelName() string {
	if child := d.SelectElement("model"); child != nil {
		return child.SelectAttrValue("type", "")
	}
	return d.SelectAttrValue("model", "")
}

// isPort reports whether an element is a PCI controller.
func isPort(e *etree.Element) bool {
	return e.Tag == "controller" && e.SelectAttrValue("type", "") == "pci"
}

// controllerIndex returns the index of a controller. A controller without one is the first.
func controllerIndex(e *etree.Element) uint {
	n, err := strconv.ParseUint(e.SelectAttrValue("index", "0"), 10, 32)
	if err != nil {
		return 0
	}
	return uint(n)
}

// aliasless are kinds whose devices KubeVirt gives no alias. The n-th of a domain is the n-th of the record. A device of another kind without alias is
// libvirt's: newer versions add the watchdog of the chipset, model 'itco', to each domain of q35.
var aliasless = []string{"memballoon", "panic", "redirdev", "rng", "tpm", "video", "vsock"}

// channelNames are the names in records of the ports that KubeVirt opens.
var channelNames = map[string]string{"org.qemu.guest_agent.0": abi.GuestAgent, "org.github.vhostmd.1": "downward-metrics"}

// hostdevPrefixes are put by KubeVirt before the name of a host device.
var hostdevPrefixes = []string{"dra-hostdevice-", "dra-gpu-", "hostdevice-", "gpu-", "sriov-", "usb-host-"}

// placeholder is how the devices of interfaces begin that keep ports free in the first of KubeVirt's definitions.
const placeholder = "placeholder-"

// findDevices lists the devices with their entries of the record. Placeholders are none.
func (g *guest) findDevices() {
	seen, used := map[string]bool{}, map[string]int{}
	for _, e := range g.list.ChildElements() {
		if target := e.SelectElement("target"); isPort(e) || target != nil && strings.HasPrefix(target.SelectAttrValue("dev", ""), placeholder) {
			continue
		}
		d := &device{Element: e, key: g.keyOf(e, used)}
		entry, ok := g.frozen.Devices[d.key]
		if ok && seen[d.key] {
			g.addError(d.String(), "is in the domain twice")
		}
		seen[d.key] = true
		d.recorded, d.new = entry, !ok
		g.devices = append(g.devices, d)
	}
}

// keyOf returns the key of a device in records. used counts the devices without alias by kind.
func (g *guest) keyOf(e *etree.Element, used map[string]int) string {
	if e.Tag == "controller" {
		return record.ControllerKey(e.SelectAttrValue("type", ""), controllerIndex(e))
	}
	if name := aliasOf(e); name != "" {
		return record.Key(e.Tag, name)
	}
	switch target := e.SelectElement("target"); {
	case slices.Contains(aliasless, e.Tag):
		used[e.Tag]++
		return g.nthRecordedKey(e.Tag, used[e.Tag])
	case e.Tag == "filesystem" && target != nil:
		return record.Key(e.Tag, target.SelectAttrValue("dir", ""))
	case e.Tag == "channel" && target != nil:
		port := target.SelectAttrValue("name", "")
		return record.Key(e.Tag, cmp.Or(channelNames[port], port))
	case e.Tag == "input": // inputs that each VMI of an architecture has
		return record.Key(e.Tag, e.SelectAttrValue("bus", "")+"-"+e.SelectAttrValue("type", ""))
	}
	return record.Key(e.Tag, "")
}

// aliasOf returns the name of a device in the VMI.
func aliasOf(e *etree.Element) string {
	alias := e.SelectElement("alias")
	if alias == nil {
		return ""
	}
	name, ok := strings.CutPrefix(alias.SelectAttrValue("name", ""), abi.AliasPrefix)
	if !ok {
		return ""
	}
	if e.Tag == "hostdev" {
		for _, prefix := range hostdevPrefixes {
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				return rest
			}
		}
	}
	return name
}

// nthRecordedKey returns the key of the n-th recorded device of a kind, from 1 on, and another one for those that the record does not have.
func (g *guest) nthRecordedKey(kind string, n int) string {
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(g.frozen.Devices)), func(key string) bool { return !strings.HasPrefix(key, kind+".") })
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) // usbredir-2 before usbredir-10
	if n > len(keys) {
		return record.Key(kind, fmt.Sprintf("%d of %d", n, len(keys)))
	}
	return keys[n-1]
}
