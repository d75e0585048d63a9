package frontend

import (
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/address"
	"libvirt.org/go/libvirtxml"
)

// Owns the expander buses of a guest that mirrors NUMA cells, for the devices that hostdevices_numa.go puts next to a cell.

// expanders are those of the record.
func (p *placement) expanders() map[uint]address.Expander {
	var out map[uint]address.Expander
	for key, a := range p.Frozen.Devices {
		if a.Expander == "" {
			continue
		}
		index, ok := portIndex(key)
		if e, legible := parseExpander(a.Expander); ok && legible {
			if out == nil {
				out = map[uint]address.Expander{}
			}
			out[index] = e
		}
	}
	return out
}

// turned gives expanders other cells where the guest has other cells now, by its owner's will: each goes with its first device of
// which a cell is known. None of them moves.
func (p *placement) turned(t address.PCIe) {
	if len(t.Expanders) == 0 || p.mirrorsRecord() {
		return
	}
	for index, e := range t.Expanders {
		e.Cell = nil
		t.Expanders[index] = e
	}
	for _, d := range p.devices {
		at, err := address.ParsePCI(p.recorded(d.Key()).PCI)
		if err != nil {
			continue
		}
		port, err := address.ParsePCI(t.Ports[at.Bus])
		if e, ok := t.Expanders[port.Bus]; err == nil && ok && e.Cell == nil && p.mirroring() {
			e.Cell = p.known(d)
			t.Expanders[port.Bus] = e
		}
	}
}

// parseExpander reads what records say of an expander: its bus number and, if any, its cell.
func parseExpander(text string) (address.Expander, bool) {
	number, cell, _ := strings.Cut(text, ":")
	bus, err := strconv.ParseUint(number, 10, 8)
	if err != nil {
		return address.Expander{}, false
	}
	e := address.Expander{BusNr: uint(bus)}
	if n, err := strconv.ParseUint(cell, 10, 16); err == nil {
		id := uint(n)
		e.Cell = &id
	}
	return e, true
}

// expander is the bus as libvirt spells it.
func (p *placement) expander(index uint, at address.PCI, e address.Expander) {
	c := p.controller("pci", index, "pcie-expander-bus")
	c.PCI = &libvirtxml.DomainControllerPCI{
		Model:  &libvirtxml.DomainControllerPCIModel{Name: "pxb-pcie"},
		Target: &libvirtxml.DomainControllerPCITarget{BusNr: &e.BusNr, NUMANode: e.Cell},
	}
	c.Address = libvirtPCI(at, false)
}
