package kubevirt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/record"
)

// Capture returns a record with what libvirt has assigned to a domain of KubeVirt: the places of the devices, which PutBack restores, the machine, and the disk
// that is booted. Entries of devices that the domain does not have are removed, and the rest of the earlier record is kept; a nil record is an empty one. xml
// is what libvirt prints for a guest that runs or is defined: it contains devices that were hot-plugged. An error names what a record cannot hold.
func Capture(xml []byte, earlier *record.Record) (*record.Record, error) {
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(xml); err != nil {
		return nil, fmt.Errorf("the domain is not XML: %w", err)
	}
	root := doc.SelectElement("domain")
	if root == nil || root.SelectElement("devices") == nil {
		return nil, errors.New("the domain has no element 'domain' with 'devices'")
	}
	out := record.Record{}
	if earlier != nil {
		out = *earlier
	}
	if kind := root.FindElement("os/type"); kind != nil {
		if machine := kind.SelectAttrValue("machine", ""); aliases[machine] == "" {
			out.Machine = machine
		}
	}
	out.Devices = map[string]record.Address{}
	g := &guest{root: root, list: root.SelectElement("devices"), frozen: &record.Record{}}
	g.findDevices()
	for _, d := range g.devices {
		g.captureDevice(out.Devices, d, earlier)
	}
	out.FreePorts, out.BootDisk = g.capturePorts(out.Devices), g.bootDisk()
	if err := record.Check(&out); err != nil {
		return nil, err
	}
	return &out, nil
}

// captureDevice records the place of a device.
func (g *guest) captureDevice(devices map[string]record.Address, d *device, earlier *record.Record) {
	at := addressOf(d.Element)
	if slices.Contains(aliasless, d.Tag) && aliasOf(d.Element) == "" {
		d.key = g.keyWithoutAlias(d, devices, earlier)
	}
	if d.Tag == "disk" {
		at.Target = d.targetName()
	}
	if d.Tag == "controller" {
		n := controllerIndex(d.Element)
		at.Index = &n
	}
	if at != (record.Address{}) && d.key != record.Key(d.Tag, "") {
		devices[d.key] = at
	}
}

// names of devices without alias in Kiln's own domains.
var names = map[string]string{"memballoon": "balloon"}

// keyWithoutAlias returns the key of the next device of a kind without alias: the key in the earlier record, or else the key that it has in Kiln's own domains.
func (g *guest) keyWithoutAlias(d *device, taken map[string]record.Address, earlier *record.Record) string {
	kind := d.Tag
	n := 1
	for key := range taken {
		if of, _ := record.SplitKey(key); of == kind {
			n++
		}
	}
	if earlier != nil {
		if key := (&guest{frozen: earlier}).nthRecordedKey(kind, n); earlier.Devices[key] != (record.Address{}) {
			return key
		}
	}
	switch kind {
	case "redirdev":
		return record.Key(kind, fmt.Sprintf("usbredir-%d", n-1))
	case "panic":
		return record.Key(kind, "panic-"+d.modelName())
	case "memballoon":
		return record.Key(kind, names[kind])
	}
	return record.Key(kind, kind)
}

// capturePorts records the PCI controllers, and returns how many root ports are free.
func (g *guest) capturePorts(devices map[string]record.Address) (free int) {
	used := map[uint]bool{}
	for _, a := range devices {
		if at, err := address.ParsePCI(a.PCI); err == nil {
			used[at.Bus] = true
		}
	}
	for _, e := range g.list.ChildElements() {
		if !isPort(e) || controllerIndex(e) == 0 {
			continue
		}
		at := addressOf(e)
		n := controllerIndex(e)
		at.Index = &n
		if target := e.SelectElement("target"); e.SelectAttrValue("model", "") == expanderBus && target != nil {
			at.Expander = expanderOf(target)
		}
		devices[record.ControllerKey("pci", n)] = at
		if e.SelectAttrValue("model", "") == rootPort && !used[n] {
			free++
		}
	}
	return free
}

func expanderOf(target *etree.Element) string {
	of := address.Expander{}
	of.BusNr, _ = parseNumber(target, "busNr")
	if node := target.SelectElement("node"); node != nil {
		n := uint(0)
		if _, err := fmt.Sscan(node.Text(), &n); err == nil {
			of.NUMANode = &n
		}
	}
	return of.String()
}

// addressOf returns the address of an element in the form of records; empty for kinds that records do not have.
func addressOf(e *etree.Element) record.Address {
	at := e.SelectElement("address")
	if at == nil {
		return record.Address{}
	}
	part := func(name string) uint { n, _ := parseNumber(at, name); return n }
	switch at.SelectAttrValue("type", "") {
	case "pci":
		return record.Address{PCI: address.PCI{Bus: part("bus"), Slot: part("slot"), Function: part("function")}.String()}
	case "drive":
		return record.Address{Drive: address.Drive{Controller: part("controller"), Bus: part("bus"), Target: part("target"), Unit: part("unit")}.String()}
	case "usb":
		// libvirt adds a hub for what finds no port. Records know no ports of hubs, such as 1.2, and libvirt gives them anew in the same order.
		if usb := address.FormatUSB(part("bus"), at.SelectAttrValue("port", "")); !strings.Contains(usb, ".") {
			return record.Address{USB: usb}
		}
	case "virtio-serial":
		return record.Address{Serial: address.Serial{Controller: part("controller"), Bus: part("bus"), Port: part("port")}.String()}
	case "ccw":
		return record.Address{CCW: address.CCW{CSSID: part("cssid"), SSID: part("ssid"), Device: part("devno")}.String()}
	}
	return record.Address{}
}
