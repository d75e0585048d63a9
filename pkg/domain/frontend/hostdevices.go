package frontend

import (
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns devices.gpus, devices.hostDevices and SR-IOV interfaces. The backend adds which device of the host it is. Only its kind is a fact for
// this stage, because the guest sees it: PCI function, mediated device, USB device; on s390x also a crypto matrix or a channel device.
// KubeVirt: device/hostdevice. libvirt: "Host device assignment".

// renderHostdevs keeps the order of the spec: interfaces, hostDevices, gpus. KubeVirt orders them by kind and not by spec, so that another kind of
// device moves addresses.
func (g *guest) renderHostdevs() []libvirtxml.DomainHostdev {
	var out []libvirtxml.DomainHostdev
	for i := range g.dev.Interfaces {
		n := &g.dev.Interfaces[i]
		if n.SRIOV == nil || n.State == v1.InterfaceStateAbsent {
			continue
		}
		path := interfacesPath.Index(i)
		h := g.renderHostdev(n.Name, path)
		h.Boot = bootElement(n.BootOrder)
		h.ROM = g.renderROM(n)
		h.ACPI = g.acpiIndex(n, path)
		if n.PciAddress != "" {
			g.addPin("hostdev", n.Name, pin{path.Child("pciAddress"), n.PciAddress})
		}
		out = append(out, h)
	}
	for i := range g.dev.HostDevices {
		name, path := g.dev.HostDevices[i].Name, g.devPath.Child("hostDevices").Index(i)
		out = append(append(out, g.renderHostdev(name, path)), g.renderBundle(name, path)...)
	}
	for i := range g.dev.GPUs {
		out = append(append(out, g.renderGPU(i)), g.renderBundle(g.dev.GPUs[i].Name, g.devPath.Child("gpus").Index(i))...)
	}
	return out
}

// renderBundle returns the USB devices of a host device that follow its first one. Each has a name of its own, under which the record keeps its port: one that
// a later boot adds moves no other. A host device that has one of these names makes stage 2 report a duplicate.
func (g *guest) renderBundle(name string, path *field.Path) (rest []libvirtxml.DomainHostdev) {
	if g.Facts.HostDevices[name] != "usb" || g.arch.usb == usbNever {
		return nil
	}
	for n := 2; n <= g.Facts.USBDevices[name]; n++ {
		own := abi.BundledName(name, n)
		g.addPin("hostdev", own, pin{path: path})
		rest = append(rest, libvirtxml.DomainHostdev{Alias: abi.BoundAlias("hostdev", own), Managed: "no", SubsysUSB: &libvirtxml.DomainHostdevSubsysUSB{}})
	}
	return rest
}

func (g *guest) renderHostdev(name string, path *field.Path) libvirtxml.DomainHostdev {
	g.checkName(name, path)
	g.addPin("hostdev", name, pin{path: path})
	out := libvirtxml.DomainHostdev{Alias: abi.BoundAlias("hostdev", name), Managed: "no"} // the device plugin or launcher detaches it from its driver
	switch kind := g.Facts.HostDevices[name]; kind {
	case "", "pci":
		out.SubsysPCI = &libvirtxml.DomainHostdevSubsysPCI{}
	case "mdev":
		out.SubsysMDev = &libvirtxml.DomainHostdevSubsysMDev{Model: "vfio-pci", Display: "off"} // libvirt stores 'off' for mdev
	case "ap", "ccw":
		if !g.arch.ccw {
			g.addError(field.Forbidden(path, "devices of kind '"+kind+"' exist on architecture 's390x' only"))
		}
		out.SubsysMDev = &libvirtxml.DomainHostdevSubsysMDev{Model: "vfio-" + kind}
	case "usb":
		if g.arch.usb == usbNever {
			g.addError(field.Forbidden(path, "architecture '"+g.spec.Architecture+"' has no USB"))
		}
		out.SubsysUSB = &libvirtxml.DomainHostdevSubsysUSB{}
	default:
		g.addError(field.NotSupported(path, kind, []string{"ap", "ccw", "mdev", "pci", "usb"}))
	}
	return out
}

// renderGPU returns the host device of a GPU, with the display of a virtual one.
func (g *guest) renderGPU(i int) libvirtxml.DomainHostdev {
	gpu := &g.dev.GPUs[i]
	out := g.renderHostdev(gpu.Name, g.devPath.Child("gpus").Index(i))
	display, ramfb := g.gpuDisplay(i)
	switch {
	case !display:
	case out.SubsysMDev != nil:
		out.SubsysMDev.Display, out.SubsysMDev.RamFB = "on", attr.OnOff(ramfb)
	case out.SubsysPCI != nil:
		out.SubsysPCI.Display, out.SubsysPCI.RamFB = "on", attr.OnOff(ramfb)
	}
	return out
}

// gpuDisplay follows KubeVirt: without virtualGPUOptions of any GPU, the first mediated one has a display and a RAM framebuffer. enabled that is
// absent means true.
func (g *guest) gpuDisplay(i int) (display, ramfb bool) {
	options := g.dev.GPUs[i].VirtualGPUOptions
	if options == nil || options.Display == nil {
		for j := range g.dev.GPUs {
			if g.dev.GPUs[j].VirtualGPUOptions != nil {
				return false, false
			}
			if g.Facts.HostDevices[g.dev.GPUs[j].Name] == "mdev" {
				return i == j, i == j
			}
		}
		return false, false
	}
	d := options.Display
	if !ptr.Deref(d.Enabled, true) {
		return false, false
	}
	return true, d.RamFB == nil || ptr.Deref(d.RamFB.Enabled, true)
}
