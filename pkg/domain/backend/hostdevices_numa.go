package backend

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"libvirt.org/go/libvirtxml"
)

// Couplings: the frontend shows a host device on a NUMA node of the guest (feature gate PCINUMAAwareTopology). The CPUs and memory of that node
// must then be on the host's node of the device.

// NUMANodeOf returns the NUMA node of the host that a PCI or mediated device is on. It returns false if the node is unknown: sysfs has -1 for a device without
// affinity. If the host has only one NUMA node, it returns that one.
func NUMANodeOf(host Capabilities, device HostDev) (int, bool) {
	switch {
	case device.Type != "pci" && device.Type != "mdev":
		return 0, false
	case device.NUMANode != nil:
		return *device.NUMANode, true
	case len(host.NUMA) == 1:
		return host.NUMA[0].ID, true
	}
	return 0, false
}

// nodeDevice is a host device that the guest sees on one of its NUMA nodes, and the NUMA node of the host that it is on.
type nodeDevice struct {
	name string
	host int
}

// devicesOnNode returns the host devices behind the expander bus of a NUMA node of the guest, those whose node the host reports.
func (h *host) devicesOnNode(node uint) (list []nodeDevice) {
	expanders, ports := map[uint]bool{}, map[uint]bool{}
	for _, c := range h.Frontend.Devices.Controllers {
		if c.PCI != nil && c.PCI.Target != nil && c.PCI.Target.BusNr != nil && c.PCI.Target.NUMANode != nil && *c.PCI.Target.NUMANode == node {
			expanders[*c.Index] = true
		}
	}
	for _, c := range h.Frontend.Devices.Controllers {
		if bus := busOf(c.Address); c.Type == "pci" && expanders[bus] {
			ports[*c.Index] = true
		}
	}
	for _, d := range h.Frontend.Devices.Hostdevs {
		name := abi.Name("hostdev", d.Alias)
		if id, reported := NUMANodeOf(h.Host, h.Bindings.HostDevs[name]); reported && ports[busOf(d.Address)] {
			list = append(list, nodeDevice{name, id})
		}
	}
	return list
}

// busOf returns the PCI bus of an address. It is 0, the root bus, for a device that is not on PCI too: no expander or port has index 0.
func busOf(a *libvirtxml.DomainAddress) uint {
	if a == nil || a.PCI == nil || a.PCI.Bus == nil {
		return 0
	}
	return *a.PCI.Bus
}

// matchesDevices reports whether all devices of a NUMA node of the guest are on this NUMA node of the host.
func (c guestNode) matchesDevices(id int) bool {
	return !slices.ContainsFunc(c.devices, func(n nodeDevice) bool { return n.host != id })
}

// deviceRank is 1 for a NUMA node of the host with devices of the VMI, else 0.
func deviceRank(nodes []guestNode, id int) int {
	for _, c := range nodes {
		if slices.ContainsFunc(c.devices, func(n nodeDevice) bool { return n.host == id }) {
			return 1
		}
	}
	return 0
}

// describeDevices lists the devices of a NUMA node for an error.
func (c guestNode) describeDevices() (text string) {
	for _, n := range c.devices {
		text += fmt.Sprintf(", device '%s' of node %d", n.name, n.host)
	}
	return text
}
