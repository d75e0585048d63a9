package kubevirt

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/beevik/etree"
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/record"
)

// Addresses on buses other than PCI (drives, USB ports, ports of channels, channel devices of s390x), and the controllers of these buses.

// attr is an attribute of an address.
type attr struct{ name, value string }

// setAddress replaces the address of an element.
func setAddress(e *etree.Element, kind string, attrs ...attr) {
	to := e.SelectElement("address")
	if to == nil {
		to = e.CreateElement("address")
	}
	to.Attr = nil
	to.CreateAttr("type", kind)
	for _, a := range attrs {
		to.CreateAttr(a.name, a.value)
	}
}

// dropAddress leaves the place of an element to libvirt.
func dropAddress(e *etree.Element) {
	if at := e.SelectElement("address"); at != nil {
		e.RemoveChild(at)
	}
}

// parseNumber reads a part of an address, which is decimal or, after '0x', hexadecimal.
func parseNumber(of *etree.Element, part string) (uint, bool) {
	n, err := strconv.ParseUint(of.SelectAttrValue(part, "0"), 0, 16)
	return uint(n), err == nil
}

func formatDecimal(n uint) string { return strconv.FormatUint(uint64(n), 10) }

// addControllers adds the controllers of recorded places that KubeVirt leaves to libvirt, because libvirt would assign the places anew.
func (g *guest) addControllers() {
	for _, d := range g.devices {
		if d.new {
			continue
		}
		if c := hardware.Bus(d.busName()).Controller; c != nil && !c.OnRootBus {
			if at, err := address.ParseDrive(d.recorded.Drive); err == nil {
				g.addController(d.busName(), at.Controller)
			}
		}
		if at, err := address.ParseUSB(d.recorded.USB); err == nil && d.onUSB() {
			g.addController("usb", at.Bus)
			g.addUSBPorts(at)
		}
		if at, err := address.ParseSerial(d.recorded.Serial); err == nil && d.Tag == "channel" {
			g.addController("virtio-serial", at.Controller)
		}
	}
}

func (g *guest) controllerAt(kind string, index uint) *device {
	i := slices.IndexFunc(g.devices, func(d *device) bool { return d.key == record.ControllerKey(kind, index) })
	if i < 0 {
		return nil
	}
	return g.devices[i]
}

// addController adds a controller like the first of its type. A virtio-serial controller has no model if KubeVirt writes none, as if libvirt had added it.
func (g *guest) addController(kind string, index uint) {
	first := g.controllerAt(kind, 0)
	if g.controllerAt(kind, index) != nil || first == nil && kind != "virtio-serial" {
		return
	}
	e := etree.NewElement("controller")
	if first != nil {
		e = first.Copy()
		dropAddress(e)
	}
	e.CreateAttr("type", kind)
	e.CreateAttr("index", formatDecimal(index))
	g.list.AddChild(e)
	d := &device{Element: e, key: record.ControllerKey(kind, index)}
	entry, ok := g.frozen.Devices[d.key]
	d.recorded, d.new = entry, !ok
	g.devices = append(g.devices, d)
}

// defaultUSBPorts is QEMU's number of ports of an xHCI controller.
const defaultUSBPorts = 4

// addUSBPorts gives a controller as many ports as records know, if a device has one that QEMU's default does not have.
func (g *guest) addUSBPorts(at address.USB) {
	if c := g.controllerAt("usb", at.Bus); c != nil && at.Port > defaultUSBPorts {
		c.CreateAttr("ports", formatDecimal(address.USBPorts))
	}
}

func (d *device) onUSB() bool {
	return d.busName() == "usb" || d.Tag == "hostdev" && d.SelectAttrValue("type", "") == "usb"
}

// placeNumbered restores the recorded places on USB, virtio-serial and the channel subsystem. If a new device has the place of a recorded one, libvirt assigns
// another place to the new device.
func (g *guest) placeNumbered() {
	for _, bus := range []struct {
		kind    string
		on      func(*device) bool
		address func(record.Address) (place string, attrs []attr)
		parts   []string
	}{
		{"usb", (*device).onUSB, usbPlace, []string{"bus", "port"}},
		{"virtio-serial", func(d *device) bool { return d.Tag == "channel" }, serialPlace, []string{"controller", "bus", "port"}},
		{"ccw", func(*device) bool { return true }, ccwPlace, []string{"cssid", "ssid", "devno"}},
	} {
		taken := map[string]*device{}
		for _, d := range g.devices {
			place, attrs := bus.address(d.recorded)
			if place == "" || !bus.on(d) {
				continue
			}
			if other := taken[place]; other != nil {
				g.addError(d.String(), "its recorded place %s %s is taken by %s", bus.kind, place, other)
				continue
			}
			taken[place] = d
			setAddress(d.Element, bus.kind, attrs...)
		}
		for _, d := range g.devices {
			if at := d.SelectElement("address"); at != nil && at.SelectAttrValue("type", "") == bus.kind {
				if other := taken[placeKey(at, bus.parts)]; other != nil && other != d {
					dropAddress(d.Element)
				}
			}
		}
	}
}

// placeKey returns the place in an address of the domain, as a key of 'taken'; empty if the address lacks a part.
func placeKey(at *etree.Element, parts []string) (out string) {
	for _, part := range parts {
		n, ok := parseNumber(at, part)
		if !ok || at.SelectAttr(part) == nil {
			return ""
		}
		out += fmt.Sprintf(":%d", n)
	}
	return out
}

func usbPlace(a record.Address) (string, []attr) {
	at, err := address.ParseUSB(a.USB)
	if err != nil {
		return "", nil
	}
	return fmt.Sprintf(":%d:%d", at.Bus, at.Port), []attr{{"bus", formatDecimal(at.Bus)}, {"port", formatDecimal(at.Port)}}
}

func serialPlace(a record.Address) (string, []attr) {
	at, err := address.ParseSerial(a.Serial)
	if err != nil {
		return "", nil
	}
	return fmt.Sprintf(":%d:%d:%d", at.Controller, at.Bus, at.Port),
		[]attr{{"controller", formatDecimal(at.Controller)}, {"bus", formatDecimal(at.Bus)}, {"port", formatDecimal(at.Port)}}
}

func ccwPlace(a record.Address) (string, []attr) {
	at, err := address.ParseCCW(a.CCW)
	if err != nil {
		return "", nil
	}
	return fmt.Sprintf(":%d:%d:%d", at.CSSID, at.SSID, at.Device),
		[]attr{{"cssid", fmt.Sprintf("0x%x", at.CSSID)}, {"ssid", formatDecimal(at.SSID)}, {"devno", fmt.Sprintf("0x%04x", at.Device)}}
}
