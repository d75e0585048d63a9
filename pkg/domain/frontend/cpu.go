package frontend

import (
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns spec.domain.cpu: sockets, maxSockets, cores, threads, model and features. Where CPUs run (dedicatedCpuPlacement,
// isolateEmulatorThread, realtime's mask) is the backend's. NUMA nodes are in cpu_numa.go.
//
// Sockets can be added to a running guest up to maxSockets: the guest boots with all of them in its topology, and those
// beyond sockets are not plugged in. QEMU's board of arm64 takes none later: there maxSockets has no meaning, as in KubeVirt.

// topology returns the sockets at boot and at most, the cores of a socket and the threads of a core. A count that the API leaves at 0
// beside another is 1.
func (g *guest) topology() (sockets, most, cores, threads uint) {
	c := g.spec.Domain.CPU
	given, perSocket, perCore := vm.Topology(c)
	if given == 0 {
		return 1, 1, 1, 1 // vcpu reports it
	}
	sockets, cores, threads = uint(given), uint(perSocket), uint(perCore)
	if !g.arch.cpusGrow {
		return sockets, sockets, cores, threads
	}
	return sockets, max(sockets, uint(c.MaxSockets)), cores, threads
}

// vcpus at boot.
func (g *guest) cpus() uint {
	sockets, _, cores, threads := g.topology()
	return sockets * cores * threads
}

func (g *guest) maxCPUs() uint {
	_, most, cores, threads := g.topology()
	return most * cores * threads
}

func (g *guest) vcpu() *libvirtxml.DomainVCPU {
	if given, _, _ := vm.Topology(g.spec.Domain.CPU); given == 0 {
		g.fail(field.Required(g.path.Child("cpu", "cores"), "cores, sockets or threads must be set"))
	}
	v := &libvirtxml.DomainVCPU{Placement: "static", Value: g.maxCPUs()}
	if g.cpus() < v.Value {
		v.Current = g.cpus()
	}
	return v
}

// vcpus lists every CPU once some can be added. Those of the first socket cannot be removed: firmware and kernel want one to
// boot with.
func (g *guest) vcpus() *libvirtxml.DomainVCPUs {
	now, most := g.cpus(), g.maxCPUs()
	if now == most {
		return nil
	}
	_, _, cores, threads := g.topology()
	list, ids := &libvirtxml.DomainVCPUs{VCPU: make([]libvirtxml.DomainVCPUsVCPU, most)}, make([]uint, most)
	for i := range most {
		ids[i] = i
		list.VCPU[i] = libvirtxml.DomainVCPUsVCPU{Id: &ids[i], Enabled: yesNo(i < now), Hotpluggable: yesNo(i >= cores*threads)}
	}
	return list
}

func (g *guest) cpu() *libvirtxml.DomainCPU {
	_, most, cores, threads := g.topology()
	out := &libvirtxml.DomainCPU{
		// One die is libvirt's own reading of a topology without dies.
		Topology: &libvirtxml.DomainCPUTopology{Sockets: int(most), Dies: 1, Cores: int(cores), Threads: int(threads)},
		Numa:     g.numa(),
	}
	c := g.spec.Domain.CPU
	if c == nil || c.Model == "" {
		g.fail(field.Required(g.path.Child("cpu", "model"), ""))
		return out
	}
	switch c.Model {
	case v1.CPUModeHostModel:
		out.Mode = c.Model
	case v1.CPUModeHostPassthrough:
		// Migratable is libvirt's default; said here so that no other version of it can differ.
		out.Mode, out.Migratable = c.Model, "on"
	default:
		// A host without the model refuses the guest; libvirt would otherwise give it the closest one.
		out.Mode, out.Match = "custom", "exact"
		out.Model = &libvirtxml.DomainCPUModel{Fallback: "forbid", Value: c.Model}
	}
	out.Features = g.cpuFeatures(c)
	return out
}

func (g *guest) cpuFeatures(c *v1.CPU) []libvirtxml.DomainCPUFeature {
	var out []libvirtxml.DomainCPUFeature
	mpx := false
	for i, feature := range c.Features {
		if feature.Name == "" {
			g.fail(field.Required(g.path.Child("cpu", "features").Index(i).Child("name"), ""))
		}
		policy := feature.Policy
		if policy == "" {
			policy = "require" // the API's meaning of absent
		}
		mpx = mpx || feature.Name == "mpx"
		out = append(out, libvirtxml.DomainCPUFeature{Name: feature.Name, Policy: policy})
	}
	// libvirt's models of old Intel processors contain MPX, which newer processors and kernels have dropped.
	named := c.Model != v1.CPUModeHostModel && c.Model != v1.CPUModeHostPassthrough
	if named && !mpx && g.spec.Architecture == "amd64" {
		out = append(out, libvirtxml.DomainCPUFeature{Name: "mpx", Policy: "disable"})
	}
	return out
}

// remaps reports whether the guest has, or can get, more CPUs than interrupts reach on a PC without remapping (255).
func (g *guest) remaps() bool {
	return g.spec.Architecture == "amd64" && g.maxCPUs() > vm.WithoutIOMMU
}

// addressBits of the IOMMU: with the 39 that QEMU has by default, devices of a guest that uses it would not reach memory above 512 GiB.
const addressBits = 48

// iommus is the IOMMU for interrupts of many CPUs. It could translate addresses as well: host devices then need its caching mode,
// and one may be added later.
func (g *guest) iommus() []libvirtxml.DomainIOMMU {
	if !g.remaps() {
		return nil
	}
	return []libvirtxml.DomainIOMMU{{Model: "intel", Driver: &libvirtxml.DomainIOMMUDriver{IntRemap: "on", EIM: "on", CachingMode: "on", AWBits: addressBits}}}
}
