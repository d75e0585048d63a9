package backend

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"libvirt.org/go/libvirtxml"
)

// Couplings: a guest that sees a host device next to one of its NUMA nodes has that NUMA node's CPUs and memory where the device is.

// NUMANodeOf is the NUMA node of a host that a PCI device is next to; false where it is not known. On a host with one NUMA node it is that one.
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

// neighbour is a host device that the guest sees next to one of its NUMA nodes, and the NUMA node of the host that it is next to.
type neighbour struct {
	name string
	host int
}

// neighbours of each of the guest's NUMA nodes, as far as the host tells where they are.
func (h *host) neighbours(node uint) (list []neighbour) {
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
		if id, told := NUMANodeOf(h.Host, h.Bindings.HostDevs[name]); told && ports[busOf(d.Address)] {
			list = append(list, neighbour{name, id})
		}
	}
	return list
}

// busOf is 0, the root bus, for what is on no PCI bus too: no expander or port has that index.
func busOf(a *libvirtxml.DomainAddress) uint {
	if a == nil || a.PCI == nil || a.PCI.Bus == nil {
		return 0
	}
	return *a.PCI.Bus
}

// beside reports whether all devices next to a NUMA node of the guest are next to a NUMA node of the host.
func (c guestNode) beside(id int) bool {
	return !slices.ContainsFunc(c.neighbours, func(n neighbour) bool { return n.host != id })
}

// devicesOf is 1 for a NUMA node of the host that devices of the guest's NUMA nodes are next to, else 0.
func devicesOf(nodes []guestNode, id int) int {
	for _, c := range nodes {
		if slices.ContainsFunc(c.neighbours, func(n neighbour) bool { return n.host == id }) {
			return 1
		}
	}
	return 0
}

// devices lists the devices next to a NUMA node for messages.
func (c guestNode) devices() (text string) {
	for _, n := range c.neighbours {
		text += fmt.Sprintf(", device '%s' of node %d", n.name, n.host)
	}
	return text
}
