package backend

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Elements: interface@type, interface/source, interface/target, interface/backend, interface/driver@name, interface/mtu, and of the host profile's net:
// bandwidth, filterref, trustGuestRxFilters, coalesce, port.
// KubeVirt: network/domainspec/generators.go and converter/network/configurator.go. libvirt: "Network interfaces".

// completeInterfaces returns the interfaces of the frontend, each connected to its binding.
func (h *host) completeInterfaces() []libvirtxml.DomainInterface {
	out := slices.Clone(h.Frontend.Devices.Interfaces)
	for i := range out {
		name := abi.Name("interface", out[i].Alias)
		nic, bound := h.Bindings.NICs[name]
		if !bound {
			h.addError(field.Invalid(h.nicPath(name), name, h.nodeName()+" has no binding for this interface"))
			continue
		}
		h.bindNIC(&out[i], nic)
	}
	return out
}

// nicPath returns the field of an interface by its name, which the frontend keeps in the alias.
func (h *host) nicPath(name string) *field.Path {
	i := slices.IndexFunc(h.spec.Domain.Devices.Interfaces, func(n v1.Interface) bool { return n.Name == name })
	return h.domain.Child("devices", "interfaces").Index(i)
}

// bindNIC connects an interface as its binding says. A tap has managed 'no', as in KubeVirt: it exists already, and libvirt must not delete it.
func (h *host) bindNIC(out *libvirtxml.DomainInterface, nic NIC) {
	switch nic.Kind {
	case "user":
		out.Source = &libvirtxml.DomainInterfaceSource{User: &libvirtxml.DomainInterfaceSourceUser{}}
	case "passt":
		out.Source = &libvirtxml.DomainInterfaceSource{User: &libvirtxml.DomainInterfaceSourceUser{Dev: nic.Device}}
		out.Backend = &libvirtxml.DomainInterfaceBackend{Type: "passt"}
		out.PortForward = h.forwardedPorts(out)
	case "bridge":
		out.Source = &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: nic.Device}}
	case "tap", "ethernet":
		out.Source = &libvirtxml.DomainInterfaceSource{Ethernet: &libvirtxml.DomainInterfaceSourceEthernet{}}
		out.Target = &libvirtxml.DomainInterfaceTarget{Dev: nic.Device, Managed: "no"}
	case "direct":
		out.Source = &libvirtxml.DomainInterfaceSource{Direct: &libvirtxml.DomainInterfaceSourceDirect{Dev: nic.Device, Mode: "bridge"}}
	case "vhostuser":
		socket := &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Path: nic.Socket, Mode: "client"}}
		out.Source = &libvirtxml.DomainInterfaceSource{VHostUser: &libvirtxml.DomainInterfaceSourceVHostUser{Chardev: socket}}
	default:
		at := h.nicPath(abi.Name("interface", out.Alias))
		h.addError(field.NotSupported(at, nic.Kind, []string{"bridge", "direct", "ethernet", "passt", "tap", "user", "vhostuser"}))
		return
	}
	out.MTU = mtuOf(out, nic)
	h.chooseVhost(out)
	h.addLimits(out)
	h.applyFilter(out, nic)
}

// mtuOf returns the MTU of the link, which a virtio device reports to the guest. A guest that assumes 1500 bytes loses packets on a link with a smaller MTU,
// and gets no jumbo frames on a link with a larger one. Other models cannot report the MTU, and libvirt supports it only for these kinds. User-mode networking
// and passt terminate the guest's connections: the MTU of their link does not concern the network, and passt announces it to the guest by DHCP and NDP.
func mtuOf(out *libvirtxml.DomainInterface, nic NIC) *libvirtxml.DomainInterfaceMTU {
	if !isVirtio(out) || nic.MTU < leastMTU || nic.MTU > mostMTU || !slices.Contains([]string{"bridge", "tap", "ethernet", "vhostuser"}, nic.Kind) {
		return nil
	}
	return &libvirtxml.DomainInterfaceMTU{Size: nic.MTU}
}

// Bounds of what virtio-net can tell: 16 bits, and not less than IPv4 requires.
const (
	leastMTU = 68
	mostMTU  = 1<<16 - 1
)

// mostPort is the highest port of TCP and UDP.
const mostPort = 1<<16 - 1

// forwardedPorts returns the ports that passt forwards to the guest: the ports of the spec, or all if the spec has none. KubeVirt's passt does the same.
// libvirt: "Userspace connection using passt".
func (h *host) forwardedPorts(out *libvirtxml.DomainInterface) []libvirtxml.DomainInterfaceSourcePortForward {
	tcp, udp := libvirtxml.DomainInterfaceSourcePortForward{Proto: "tcp"}, libvirtxml.DomainInterfaceSourcePortForward{Proto: "udp"}
	name := abi.Name("interface", out.Alias)
	i := slices.IndexFunc(h.spec.Domain.Devices.Interfaces, func(n v1.Interface) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	nic := h.spec.Domain.Devices.Interfaces[i]
	if len(nic.Ports)+len(nic.PortRanges) == 0 {
		if last := h.Bindings.NICs[name].LastPort; last > 0 {
			// By what is left out: passt skips a port of such a list that is taken, and ends for one that it was asked for by number.
			tcp.Ranges = []libvirtxml.DomainInterfaceSourcePortForwardRange{{Start: last + 1, End: mostPort, Exclude: "yes"}}
			udp.Ranges = tcp.Ranges
		}
		return []libvirtxml.DomainInterfaceSourcePortForward{tcp, udp}
	}
	add := func(protocol string, first, last int32) {
		to := &tcp
		if strings.EqualFold(protocol, "UDP") {
			to = &udp
		}
		to.Ranges = append(to.Ranges, libvirtxml.DomainInterfaceSourcePortForwardRange{Start: uint(first), End: uint(last)}) //nolint:gosec // 0 to 65535
	}
	for _, port := range nic.Ports {
		add(port.Protocol, port.Port, 0)
	}
	for _, ports := range nic.PortRanges {
		add(ports.Protocol, ports.Start, ports.End)
	}
	return slices.DeleteFunc([]libvirtxml.DomainInterfaceSourcePortForward{tcp, udp}, func(f libvirtxml.DomainInterfaceSourcePortForward) bool {
		return len(f.Ranges) == 0
	})
}

// chooseVhost chooses the backend of a virtio interface with a kernel device. With several queues it is the kernel's vhost, as in KubeVirt; else
// hostProfile.net.vhost decides, and libvirt if that is not set.
func (h *host) chooseVhost(out *libvirtxml.DomainInterface) {
	name := ""
	switch on := h.policy.Net.VHost; {
	case !isVirtio(out) || !hasTap(out):
		return
	case out.Driver != nil && out.Driver.Queues > 1, ptr.Deref(on, false):
		name = "vhost"
	case on != nil:
		name = "qemu"
	default:
		return
	}
	driver := libvirtxml.DomainInterfaceDriver{}
	if out.Driver != nil {
		driver = *out.Driver
	}
	driver.Name = name
	out.Driver = &driver
}

// isVirtio reports whether an interface is of a virtio model; virtio-transitional and virtio-non-transitional are too.
func isVirtio(nic *libvirtxml.DomainInterface) bool {
	return nic.Model != nil && strings.HasPrefix(nic.Model.Type, "virtio")
}

// hasTap reports whether the interface has a network device in the host's kernel.
func hasTap(nic *libvirtxml.DomainInterface) bool {
	s := nic.Source
	return s != nil && (s.Bridge != nil || s.Ethernet != nil || s.Direct != nil)
}

// addLimits adds the limits and filters of hostProfile.net. The couplings refuse those that the interface cannot have.
func (h *host) addLimits(out *libvirtxml.DomainInterface) {
	p := h.policy.Net
	if p.Inbound != nil || p.Outbound != nil {
		out.Bandwidth = &libvirtxml.DomainInterfaceBandwidth{Inbound: bandwidthOf(p.Inbound), Outbound: bandwidthOf(p.Outbound)}
	}
	if p.FilterRef != "" {
		out.FilterRef = &libvirtxml.DomainInterfaceFilterRef{Filter: p.FilterRef}
	}
	if p.TrustRx != nil {
		out.TrustGuestRXFilters = attr.YesNo(*p.TrustRx)
	}
	if p.CoalesceFrames != nil {
		frames := &libvirtxml.DomainInterfaceCoalesceRXFrames{Max: toUint(p.CoalesceFrames)}
		out.Coalesce = &libvirtxml.DomainInterfaceCoalesce{RX: &libvirtxml.DomainInterfaceCoalesceRX{Frames: frames}}
	}
	if ptr.Deref(p.Isolated, false) {
		out.PortOptions = &libvirtxml.DomainInterfacePortOptions{Isolated: "yes"}
	}
}

// bandwidthOf converts limits from bytes to libvirt's units, rounded up.
func bandwidthOf(r *v1alpha1.BandwidthPolicy) *libvirtxml.DomainInterfaceBandwidthParams {
	if r == nil {
		return nil
	}
	in := func(unit uint64, q *resource.Quantity) *int {
		if q == nil {
			return nil
		}
		value := int(roundUp(*q, unit))
		return &value
	}
	// libvirt's units: "Quality of service" has kilobytes per second and kilobytes. It passes them to tc, whose kilobytes are 1000 bytes in rates and
	// 1024 in sizes.
	return &libvirtxml.DomainInterfaceBandwidthParams{Average: in(1000, r.AverageBytesPerSecond), Peak: in(1000, r.PeakBytesPerSecond),
		Burst: in(1024, r.BurstSize)}
}
