package backend

import (
	"cmp"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// Elements: seclabel. Host profile: security.secLabel. libvirt: "Security label". The couplings are here too, because most of them protect the
// guest from the host or the host from the guest.

// secLabels returns the label of hostProfile.security.secLabel. Without one the domain has no seclabel, and libvirt gives it a dynamic label of the
// security driver that the host has loaded.
func (h *host) secLabels() []libvirtxml.DomainSecLabel {
	p := h.policy.Security.SecLabel
	if p == nil {
		return nil
	}
	label := libvirtxml.DomainSecLabel{Type: p.Type, Model: p.Model, Label: p.Label}
	if p.Relabel != nil {
		label.Relabel = attr.YesNo(*p.Relabel)
	}
	return []libvirtxml.DomainSecLabel{label}
}

// checkCouplings refuses what the guest sees and the host or its profile cannot provide together. Each error names both sides. The frontend is
// never altered to fit: the VMI runs on another host, its owner changes it, or the administrator changes the profile.
func (h *host) checkCouplings() {
	nics := h.Frontend.Devices.Interfaces
	h.nicKinds = make([]string, len(nics))
	for i := range nics {
		h.nicKinds[i] = h.Bindings.NICs[abi.Name("interface", nics[i].Alias)].Kind
	}
	for _, c := range couplings {
		for _, path := range c.violations(h) {
			h.addError(field.Forbidden(path, c.message))
		}
	}
}

// couplings are all tried: a VMI gets the errors of all of them at once.
var couplings = []struct {
	// violations returns the fields whose values exclude each other.
	violations func(*host) []*field.Path
	message    string
}{
	{func(h *host) []*field.Path {
		for i, nic := range h.Frontend.Devices.Interfaces {
			if kind := h.nicKinds[i]; nic.Driver != nil && nic.Driver.Queues > 1 && (kind == "user" || kind == "passt") {
				return []*field.Path{h.domain.Child("devices", "networkInterfaceMultiqueue")}
			}
		}
		return nil
	}, "multiple queues need a tap or bridge, and this host binds the interface in user space"},
	{func(h *host) []*field.Path {
		own := h.Frontend.CPU != nil && h.Frontend.CPU.Mode == "host-passthrough"
		return pathIf(own && h.virtType() == "qemu" && h.spec.Architecture != "s390x", h.domain, "cpu", "model")
	}, "model 'host-passthrough' needs hardware virtualization, which this host does not offer"},
	// APIC IDs above 254 need an IOMMU with extended interrupt mode, which QEMU has only with KVM and its split irqchip.
	{func(h *host) []*field.Path {
		return pathIf(len(h.Frontend.Devices.IOMMUs) > 0 && h.virtType() == "qemu", h.domain, "cpu")
	}, "more than 255 vCPUs on amd64, hot-pluggable ones included, need hardware virtualization, which this host does not offer"},
	// virtiofsd and the peer of vhost-user map the guest's memory into their own processes.
	{func(h *host) []*field.Path {
		return pathIf(len(h.Frontend.Devices.Filesystems) > 0 && h.policy.Memory.Backing == "anonymous", h.domain, "devices", "filesystems")
	}, "virtiofs needs shared memory, and hostProfile.memory.backing is 'Anonymous'; use 'Memfd' or 'File'"},
	{func(h *host) []*field.Path {
		return h.interfacePaths(func(nic *libvirtxml.DomainInterface, kind string) bool {
			return kind == "vhostuser" && h.policy.Memory.Backing == "anonymous"
		})
	}, "this host binds the interface to vhost-user, which needs shared memory, and hostProfile.memory.backing is 'Anonymous'; use 'Memfd' or 'File'"},
	{func(h *host) []*field.Path {
		return h.interfacePaths(func(nic *libvirtxml.DomainInterface, kind string) bool {
			return kind == "vhostuser" && !isVirtio(nic)
		})
	}, "this host binds the interface to vhost-user, which supports model 'virtio' only"},
	{func(h *host) []*field.Path {
		return h.interfacePaths(func(nic *libvirtxml.DomainInterface, kind string) bool {
			return ptr.Deref(h.policy.Net.VHost, false) && isVirtio(nic) && !hasKernelDevice(kind)
		})
	}, "hostProfile.net.vhost 'true' needs a tap, bridge or macvtap, which this host does not bind the interface to"},
	{func(h *host) []*field.Path {
		limited := h.policy.Net.Inbound != nil || h.policy.Net.Outbound != nil
		return h.interfacePaths(func(_ *libvirtxml.DomainInterface, kind string) bool { return limited && !hasKernelDevice(kind) })
	}, "hostProfile.net.inbound and outbound need a tap, bridge or macvtap, which this host does not bind the interface to"},
	{func(h *host) []*field.Path {
		filters := h.policy.Net.FilterRef != ""
		return h.interfacePaths(func(_ *libvirtxml.DomainInterface, kind string) bool {
			return filters && (!hasKernelDevice(kind) || kind == "direct")
		})
	}, "hostProfile.net.filterRef needs a tap or bridge, which this host does not bind the interface to"},
	{func(h *host) []*field.Path {
		return h.interfacePaths(func(_ *libvirtxml.DomainInterface, kind string) bool {
			return h.policy.Security.NWFilter == "spoofing" && (kind == "direct" || kind == "vhostuser")
		})
	}, "hostProfile.security.nwFilter 'AntiSpoofing' needs a tap or bridge, which this host does not bind the interface to"},
	{func(h *host) []*field.Path {
		return h.interfacePaths(func(nic *libvirtxml.DomainInterface, kind string) bool {
			return ptr.Deref(h.policy.Net.TrustRx, false) && (kind != "direct" || !isVirtio(nic))
		})
	}, "hostProfile.net.trustRx 'true' needs an interface of model 'virtio' that is bound to a macvtap"},
	{func(h *host) []*field.Path {
		return h.interfacePaths(func(_ *libvirtxml.DomainInterface, kind string) bool {
			return kind != "bridge" && (ptr.Deref(h.policy.Net.Isolated, false) || h.policy.Net.CoalesceFrames != nil && !hasKernelDevice(kind))
		})
	}, "hostProfile.net.isolated needs a bridge, and hostProfile.net.coalesceFrames a tap, bridge or macvtap, which this host does not bind the interface to"},
	{func(h *host) []*field.Path {
		return pathIf(h.policy.CPU.PinStrategy == "none" && h.mirrorsNUMA(), h.domain, "cpu", "numa", "guestMappingPassthrough")
	}, "numa.guestMappingPassthrough needs pinned CPUs, and hostProfile.cpu.pinStrategy is 'None'"},
	{func(h *host) []*field.Path {
		mode := h.policy.NUMA.Mode
		return pathIf(mode != "" && mode != "strict" && h.mirrorsNUMA(), h.domain, "cpu", "numa", "guestMappingPassthrough")
	}, "numa.guestMappingPassthrough needs hostProfile.numa.mode 'Strict'"},
	{func(h *host) []*field.Path {
		limit := h.policy.Memory.HardLimit
		return pathIf(limit != nil && kibibytes(*limit) <= uint64(h.Frontend.Memory.Value), h.domain, "memory", "guest")
	}, "must be less than hostProfile.memory.hardLimit, which limits QEMU's own memory too; else the kernel kills QEMU"},
	{func(h *host) []*field.Path { return h.nativeIOConflicts() },
		"io 'native' bypasses the host page cache and needs cache 'none' or 'directsync', from the disk or hostProfile.disk.cachePolicy"},
	// QEMU: "setting detect-zeroes to unmap is not allowed without setting discard operation to unmap".
	{func(h *host) []*field.Path {
		return pathIf(h.policy.Disk.DetectZeroes == "unmap" && h.policy.Disk.Discard == "ignore", profileRoot, "disk", "detectZeroes")
	}, "'Unmap' needs hostProfile.disk.discard 'Unmap'"},
	// QEMU: "bps/iops/max total values and read/write values cannot be used at the same time".
	{func(h *host) []*field.Path {
		p := h.policy.DiskLimits
		return append(pathIf(p.TotalBytesPerSecond != nil && (p.ReadBytesPerSecond != nil || p.WriteBytesPerSecond != nil), profileRoot, "diskLimits",
			"totalBytesPerSecond"),
			pathIf(p.TotalIOPS != nil && (p.ReadIOPS != nil || p.WriteIOPS != nil), profileRoot, "diskLimits", "totalIOPS")...)
	}, "a total limit may not be combined with a limit of reads or writes; remove one of them"},
	{func(h *host) []*field.Path {
		p := h.policy.IOThreads
		return pathIf(p.PoolMin != nil && *p.PoolMin > 0 && (p.PoolMax == nil || *p.PoolMin > *p.PoolMax), profileRoot, "ioThreads", "poolMin")
	}, "must be less than or equal to hostProfile.ioThreads.poolMax, which must be set"},
	{func(h *host) (paths []*field.Path) {
		rates := []*v1alpha1.BandwidthPolicy{h.policy.Net.Inbound, h.policy.Net.Outbound}
		for i, name := range []string{"inbound", "outbound"} {
			paths = append(paths, pathIf(rates[i] != nil && rates[i].AverageBytesPerSecond == nil, profileRoot, "net", name, "averageBytesPerSecond")...)
		}
		return paths
	}, "must be set with hostProfile.net.inbound and outbound"},
	{func(h *host) []*field.Path {
		return pathIf((len(h.policy.Cache.L3Sizes) > 0 || len(h.policy.Cache.MemoryBandwidthPercents) > 0) && h.virtType() == "qemu", profileRoot, "cache")
	}, "cache and memory bandwidth allocation need hardware virtualization, which this host does not offer"},
}

// hasKernelDevice reports whether a binding has a network device in the host's kernel.
func hasKernelDevice(kind string) bool {
	return kind == "bridge" || kind == "tap" || kind == "ethernet" || kind == "direct"
}

// mirrorsNUMA reports whether the VMI has numa.guestMappingPassthrough.
func (h *host) mirrorsNUMA() bool { return vm.MirrorsNUMA(h.spec.Domain.CPU) }

// interfacePaths returns the paths of the interfaces that meet a condition.
func (h *host) interfacePaths(is func(nic *libvirtxml.DomainInterface, kind string) bool) (paths []*field.Path) {
	for i := range h.Frontend.Devices.Interfaces {
		nic := &h.Frontend.Devices.Interfaces[i]
		if kind := h.nicKinds[i]; kind != "" && is(nic, kind) {
			paths = append(paths, h.nicPath(abi.Name("interface", nic.Alias)))
		}
	}
	return paths
}

// nativeIOConflicts returns the disks with io native and a cache that uses the page cache: QEMU requires O_DIRECT for aio=native.
func (h *host) nativeIOConflicts() (paths []*field.Path) {
	for i := range h.spec.Domain.Devices.Disks {
		disk := &h.spec.Domain.Devices.Disks[i]
		if cmp.Or(string(disk.IO), h.policy.Disk.IOPolicy) != "native" {
			continue
		}
		cache := cmp.Or(string(disk.Cache), h.policy.Disk.CachePolicy, "none")
		if ptr.Deref(disk.Shareable, false) {
			cache = "none"
		}
		if cache != "none" && cache != "directsync" {
			paths = append(paths, h.domain.Child("devices", "disks").Index(i).Child("io"))
		}
	}
	return paths
}
