package backend

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Elements: interface@type, interface/source, interface/target, interface/backend, interface/driver@name.

func (h *host) interfaces() []libvirtxml.DomainInterface {
	out := slices.Clone(h.Frontend.Devices.Interfaces)
	for i := range out {
		name := abi.Name("interface", out[i].Alias)
		at := h.nicPath(name)
		nic, bound := h.Bindings.NICs[name]
		if !bound {
			h.fail(field.Invalid(at, name, h.node()+" has bound nothing for this interface"))
			continue
		}
		h.connect(&out[i], nic, at)
	}
	return out
}

func (h *host) nicPath(name string) *field.Path {
	i := slices.IndexFunc(h.spec.Domain.Devices.Interfaces, func(n v1.Interface) bool { return n.Name == name })
	return h.domain.Child("devices", "interfaces").Index(i)
}

func (h *host) connect(out *libvirtxml.DomainInterface, nic NIC, at *field.Path) {
	switch nic.Kind {
	case "user":
		out.Source = &libvirtxml.DomainInterfaceSource{User: &libvirtxml.DomainInterfaceSourceUser{}}
	case "passt":
		out.Source = &libvirtxml.DomainInterfaceSource{User: &libvirtxml.DomainInterfaceSourceUser{Dev: nic.Device}}
		out.Backend = &libvirtxml.DomainInterfaceBackend{Type: "passt"}
	case "bridge":
		out.Source = &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: nic.Device}}
	case "tap", "ethernet":
		out.Source = &libvirtxml.DomainInterfaceSource{Ethernet: &libvirtxml.DomainInterfaceSourceEthernet{}}
		out.Target = &libvirtxml.DomainInterfaceTarget{Dev: nic.Device, Managed: "no"}
	default:
		h.fail(field.NotSupported(at, nic.Kind, []string{"bridge", "ethernet", "passt", "tap", "user"}))
		return
	}
	// Several queues are served by the kernel's vhost, which only taps have.
	if out.Driver != nil && out.Driver.Queues > 1 && out.Source.User == nil {
		driver := *out.Driver
		driver.Name = "vhost"
		out.Driver = &driver
	}
}
