package frontend

import (
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns devices.interfaces and networkInterfaceMultiqueue. What an interface is connected to is the backend's: bridge, masquerade, passt
// and binding plugins all show the guest the same network card. SR-IOV interfaces are host devices.
// KubeVirt: converter/network/configurator.go. libvirt: "Network interfaces".

// maxQueues is Linux's limit for a tap device. KubeVirt has the same (converter/network/virtio-queues.go).
const maxQueues = 256

// maxACPIIndex is QEMU's limit: it uses indices above for slots of its own.
const maxACPIIndex = 16*1024 - 1

// unconnected stands for the connection of every interface until the backend makes one: libvirtxml cannot leave out the type of an interface.
// Nothing may write to it.
var unconnected = &libvirtxml.DomainInterfaceSource{Null: &libvirtxml.DomainInterfaceSourceNull{}}

func (g *guest) renderInterfaces() []libvirtxml.DomainInterface {
	out := make([]libvirtxml.DomainInterface, 0, len(g.dev.Interfaces))
	for i := range g.dev.Interfaces {
		n := &g.dev.Interfaces[i]
		if n.State == v1.InterfaceStateAbsent || n.SRIOV != nil {
			continue
		}
		out = append(out, g.renderNIC(n, interfacesPath.Index(i)))
	}
	return out
}

func (g *guest) renderNIC(n *v1.Interface, path *field.Path) libvirtxml.DomainInterface {
	g.checkName(n.Name, path)
	g.checkBinding(n, path)
	g.addPin("interface", n.Name, pin{path: path})
	if n.PciAddress != "" {
		g.addPin("interface", n.Name, pin{path.Child("pciAddress"), n.PciAddress})
	}
	model := hardware.Model(n.Model)
	if !model.On(g.spec.Architecture) {
		g.addError(field.NotSupported(path.Child("model"), n.Model, hardware.ModelsFor(g.spec.Architecture)))
	}
	out := libvirtxml.DomainInterface{
		Source: unconnected,
		MAC:    g.macAddress(n, path),
		Boot:   bootElement(n.BootOrder),
		ROM:    g.renderROM(n),
		ACPI:   g.acpiIndex(n, path),
		Alias:  abi.BoundAlias("interface", n.Name),
	}
	out.Model = &libvirtxml.DomainInterfaceModel{Type: model.Name}
	if model.Virtio {
		out.Model.Type = g.virtioModel()
		out.Driver = g.nicDriver()
	}
	if n.State == v1.InterfaceStateLinkDown {
		out.Link = &libvirtxml.DomainInterfaceLink{State: "down"}
	}
	return out
}

// checkBinding adds an error if Kiln does not support the binding of the interface. KubeVirt refuses the discontinued ones too
// (network/admitter/discontinued.go).
func (g *guest) checkBinding(n *v1.Interface, path *field.Path) {
	switch {
	case n.DeprecatedSlirp != nil:
		g.addError(field.Forbidden(path.Child("slirp"), "is no longer supported; use masquerade"))
	case n.DeprecatedMacvtap != nil:
		g.addError(field.Forbidden(path.Child("macvtap"), "is no longer supported; use bridge"))
	case n.DeprecatedPasst != nil:
		g.addError(field.Forbidden(path.Child("passt"), "is no longer supported; use passtBinding"))
	case n.Bridge == nil && n.Masquerade == nil && n.PasstBinding == nil && n.Binding == nil:
		g.addError(field.Required(path.Child("masquerade"), "one of bridge, masquerade, passtBinding, sriov or binding must be set"))
	}
}

// macAddress returns macAddress of the spec, else the recorded one, in one spelling: '-' or upper case in the spec must not change the record. If the spec has
// none, KubeVirt takes the pod's address, so that it changes at each start.
func (g *guest) macAddress(n *v1.Interface, path *field.Path) *libvirtxml.DomainInterfaceMAC {
	text := n.MacAddress
	if text == "" && g.Frozen != nil {
		text = g.Frozen.MACs[n.Name]
	}
	if text == "" {
		g.addError(field.Required(path.Child("macAddress"), ""))
		return nil
	}
	return &libvirtxml.DomainInterfaceMAC{Address: strings.ToLower(strings.ReplaceAll(text, "-", ":"))}
}

// renderROM switches the boot ROM off if nothing boots from the card, as KubeVirt does: each ROM costs seconds of firmware time. With encrypted memory it is
// always off, whatever the record says.
func (g *guest) renderROM(n *v1.Interface) *libvirtxml.DomainROM {
	off := n.BootOrder == nil && !record.OmitsROM(g.Frozen, n.Name)
	if g.arch.rom && (off || g.hasEncryptedMemory()) {
		return &libvirtxml.DomainROM{Enabled: "no"}
	}
	return nil
}

func (g *guest) acpiIndex(n *v1.Interface, path *field.Path) *libvirtxml.DomainDeviceACPI {
	switch {
	case n.ACPIIndex == 0:
		return nil
	case n.ACPIIndex < 0 || n.ACPIIndex > maxACPIIndex:
		g.addError(field.Invalid(path.Child("acpiIndex"), n.ACPIIndex, "must be from 1 to 16383"))
	}
	return &libvirtxml.DomainDeviceACPI{Index: uint(n.ACPIIndex)}
}

// nicDriver has what the guest sees of <driver>: the number of queues, at most one for each vCPU at boot, and the IOMMU. It is nil without them.
func (g *guest) nicDriver() *libvirtxml.DomainInterfaceDriver {
	out := libvirtxml.DomainInterfaceDriver{IOMMU: g.virtioIOMMU()}
	if queues := min(g.bootCPUs(), maxQueues); queues > 1 && ptr.Deref(g.dev.NetworkInterfaceMultiQueue, false) {
		out.Queues = queues // libvirt does not store 1, the default
	}
	return attr.UnlessEmpty(out)
}
