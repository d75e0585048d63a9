package frontend

import (
	"cmp"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns spec.domain.cpu: sockets, maxSockets, cores, threads, model and features. Where CPUs run (dedicatedCpuPlacement,
// isolateEmulatorThread, realtime's mask) is the backend's. NUMA nodes are in cpu_numa.go.
// KubeVirt: converter/compute/cpu.go. libvirt: "CPU Allocation" and "CPU model and topology".
//
// The record has the CPU. Later boots with host-model ask for exactly that CPU; KubeVirt leaves host-model to the libvirt of each start, except while a guest
// migrates.
//
// CPUs are hot-plugged by sockets, up to maxSockets. The topology has all of them from the first boot, because it cannot change while the
// guest runs; those beyond sockets are disabled. QEMU's board of arm64 has no CPU hot-plug: there maxSockets has no meaning, as in KubeVirt.

// cpuTopology returns the sockets at boot and at most, the cores of a socket and the threads of a core. A count that is 0 while another is set
// counts as 1.
func (g *guest) cpuTopology() (sockets, maxSockets, cores, threads uint) {
	c := g.spec.Domain.CPU
	given, perSocket, perCore := vm.Topology(c)
	if given == 0 {
		return 1, 1, 1, 1 // renderVCPU reports the error
	}
	sockets, cores, threads = uint(given), uint(perSocket), uint(perCore)
	if !g.arch.cpusGrow {
		return sockets, sockets, cores, threads
	}
	return sockets, max(sockets, uint(c.MaxSockets)), cores, threads
}

// bootCPUs returns the number of vCPUs at boot.
func (g *guest) bootCPUs() uint {
	sockets, _, cores, threads := g.cpuTopology()
	return sockets * cores * threads
}

// maxCPUs returns the number of vCPUs after all sockets were hot-plugged.
func (g *guest) maxCPUs() uint {
	_, maxSockets, cores, threads := g.cpuTopology()
	return maxSockets * cores * threads
}

func (g *guest) renderVCPU() *libvirtxml.DomainVCPU {
	if given, _, _ := vm.Topology(g.spec.Domain.CPU); given == 0 {
		g.addError(field.Required(g.path.Child("cpu", "cores"), "cores, sockets or threads must be set"))
	}
	v := &libvirtxml.DomainVCPU{Placement: "static", Value: g.maxCPUs()}
	if g.bootCPUs() < v.Value {
		v.Current = g.bootCPUs()
	}
	return v
}

// renderVCPUs lists every vCPU if some can be hot-plugged, as KubeVirt does. libvirt requires disabled vCPUs to be hot-pluggable. The vCPUs of the first socket
// cannot be unplugged: firmware and kernel need one to boot with.
func (g *guest) renderVCPUs() *libvirtxml.DomainVCPUs {
	current, maximum := g.bootCPUs(), g.maxCPUs()
	if current == maximum {
		return nil
	}
	_, _, cores, threads := g.cpuTopology()
	list, ids := &libvirtxml.DomainVCPUs{VCPU: make([]libvirtxml.DomainVCPUsVCPU, maximum)}, make([]uint, maximum)
	for i := range maximum {
		ids[i] = i
		list.VCPU[i] = libvirtxml.DomainVCPUsVCPU{Id: &ids[i], Enabled: attr.YesNo(i < current), Hotpluggable: attr.YesNo(i >= cores*threads)}
	}
	return list
}

func (g *guest) renderCPU() *libvirtxml.DomainCPU {
	_, maxSockets, cores, threads := g.cpuTopology()
	out := &libvirtxml.DomainCPU{
		// libvirt writes one die if the topology has none.
		Topology: &libvirtxml.DomainCPUTopology{Sockets: int(maxSockets), Dies: 1, Cores: int(cores), Threads: int(threads)},
		Numa:     g.renderNUMA(),
	}
	c := g.spec.Domain.CPU
	if c == nil || c.Model == "" {
		g.addError(field.Required(g.path.Child("cpu", "model"), ""))
		return out
	}
	out.MaxPhysAddr = g.physicalAddresses(c.Model)
	switch c.Model {
	case v1.CPUModeHostModel:
		if exact := g.exactHostModel(); exact != nil {
			setExactCPU(out, exact, c.Features)
			return out
		}
		out.Mode = c.Model // libvirt makes a model of it at the start
	case v1.CPUModeHostPassthrough:
		// Migratable is libvirt's default. It is written, because the default of another version may differ.
		out.Mode, out.Migratable = c.Model, "on"
	default:
		// Without 'exact' and 'forbid', libvirt gives the guest the closest model that the host has: other CPU features at the next start.
		out.Mode, out.Match = "custom", "exact"
		out.Model = &libvirtxml.DomainCPUModel{Fallback: "forbid", Value: c.Model}
	}
	out.Features = g.cpuFeatures(c)
	return out
}

// exactHostModel returns the CPU that host-model means for this guest: the recorded CPU, else the CPU of the host of this first boot. It returns nil if neither
// is known. libvirt makes another CPU of host-model on another host, and after an upgrade of libvirt, QEMU, kernel or microcode.
func (g *guest) exactHostModel() *record.CPU {
	if recorded := g.recordedCPU(); recorded != nil {
		return recorded
	}
	if host := g.Facts.CPU; host != nil {
		return &record.CPU{Model: host.Model, Vendor: host.Vendor, Features: host.Features, DisabledFeatures: host.DisabledFeatures}
	}
	return nil
}

// recordedCPU returns the recorded CPU; nil if none is recorded, if the owner has changed spec.domain.cpu.model or spec.architecture since, or if the record is
// to be made anew.
func (g *guest) recordedCPU() *record.CPU {
	if g.Frozen == nil || g.Frozen.CPU == nil || g.Frozen.CPU.Requested != g.spec.Domain.CPU.Model || !g.recordsThisBoard() {
		return nil
	}
	return g.Frozen.CPU
}

// setExactCPU asks libvirt for a CPU by its model and all features. Features of the spec win over features of the CPU, except optional ones, which the CPU has
// decided already. If libvirt has run the guest with this CPU, it must find exactly the same features again: it then ends the start if QEMU adds or drops one.
func setExactCPU(out *libvirtxml.DomainCPU, exact *record.CPU, asked []v1.CPUFeature) {
	out.Mode, out.Match, out.Check = "custom", "exact", "partial"
	if exact.Verified {
		out.Check = "full"
	}
	out.Model, out.Vendor = &libvirtxml.DomainCPUModel{Fallback: "forbid", Value: exact.Model}, exact.Vendor
	out.Features = make([]libvirtxml.DomainCPUFeature, 0, len(exact.Features)+len(exact.DisabledFeatures)+len(asked))
	add := func(name, policy string) {
		if !slices.ContainsFunc(asked, func(f v1.CPUFeature) bool { return f.Name == name && f.Policy != optionalFeature }) {
			out.Features = append(out.Features, libvirtxml.DomainCPUFeature{Name: name, Policy: policy})
		}
	}
	for _, name := range exact.Features {
		add(name, requiredFeature)
	}
	for _, name := range exact.DisabledFeatures {
		add(name, disabledFeature)
	}
	for _, f := range asked {
		_, has := slices.BinarySearch(exact.Features, f.Name)
		_, lacks := slices.BinarySearch(exact.DisabledFeatures, f.Name)
		if f.Policy != optionalFeature || !has && !lacks {
			out.Features = append(out.Features, libvirtxml.DomainCPUFeature{Name: f.Name, Policy: cmp.Or(f.Policy, requiredFeature)})
		}
	}
}

// Policies of features in libvirt and in the API.
const (
	requiredFeature = "require"
	optionalFeature = "optional"
	disabledFeature = "disable"
)

const (
	// physicalBits is the width of physical addresses of QEMU's CPU models on x86, except host-passthrough: 1 TiB. With RHEL's machine types a model has the
	// width of the host, with QEMU's own machine types it has not. manyBits is a width that every server with more memory has.
	physicalBits, manyBits = 40, 46
	// besideMemory is what the firmware and the windows of PCI devices take of the addresses beside memory, in KiB. A guest of 240 GiB that may grow to 960 GiB
	// starts with 40 bits, and one of 248 GiB and 992 GiB does not (QEMU 7.2).
	besideMemory = 64 << 20
)

// physicalAddresses widens the physical addresses of a CPU model that does not reach the memory that the guest has or may get: QEMU ends with "phys-bits too
// low". A recorded width stays if it is enough, because guests place PCI windows by it. libvirt: "CPU model and topology", maxphysaddr.
func (g *guest) physicalAddresses(model string) *libvirtxml.DomainCPUMaxPhysAddr {
	m := g.spec.Domain.Memory
	if g.spec.Architecture != "amd64" || model == v1.CPUModeHostPassthrough || m == nil || m.Guest == nil {
		return nil
	}
	least := uint(0)
	if recorded := g.recordedCPU(); recorded != nil {
		least = recorded.PhysicalBits
	}
	most := toKiB(m.Guest)
	if g.memoryGrows() {
		most = toKiB(m.MaxGuest)
	}
	if least == 0 && most+besideMemory <= 1<<(physicalBits-10) {
		return nil
	}
	bits := cmp.Or(least, manyBits)
	for most+besideMemory > 1<<(bits-10) {
		bits++
	}
	return &libvirtxml.DomainCPUMaxPhysAddr{Mode: "emulate", Bits: bits}
}

// cpuFeatures lists the features of the spec in their order, and disables MPX in named models, as KubeVirt does.
func (g *guest) cpuFeatures(c *v1.CPU) []libvirtxml.DomainCPUFeature {
	var out []libvirtxml.DomainCPUFeature
	mpx := false
	for i, feature := range c.Features {
		if feature.Name == "" {
			g.addError(field.Required(g.path.Child("cpu", "features").Index(i).Child("name"), ""))
		}
		policy := feature.Policy
		if policy == "" {
			policy = requiredFeature // the API's default, which is libvirt's too
		}
		mpx = mpx || feature.Name == "mpx"
		out = append(out, libvirtxml.DomainCPUFeature{Name: feature.Name, Policy: policy})
	}
	// libvirt's models of old Intel processors contain MPX, which newer processors and kernels have dropped.
	named := c.Model != v1.CPUModeHostModel && c.Model != v1.CPUModeHostPassthrough
	if named && !mpx && g.spec.Architecture == "amd64" {
		out = append(out, libvirtxml.DomainCPUFeature{Name: "mpx", Policy: disabledFeature})
	}
	return out
}

// remapsInterrupts reports whether the guest has, or can get, more CPUs than interrupts reach on a PC without remapping: 255, because the
// APIC ID in a message-signalled interrupt has eight bits.
func (g *guest) remapsInterrupts() bool {
	return g.spec.Architecture == "amd64" && g.maxCPUs() > vm.WithoutIOMMU
}

// addressBits is the width of the IOMMU's addresses. With QEMU's default of 39, a guest that uses the IOMMU could not reach memory above 512 GiB.
const addressBits = 48

// renderIOMMUs returns the IOMMU that remaps the interrupts of more than 255 vCPUs; since 10.10 libvirt adds one itself. It could translate
// addresses as well: host devices then need its caching mode, and one may be added at a later boot. libvirt: "IOMMU devices".
func (g *guest) renderIOMMUs() []libvirtxml.DomainIOMMU {
	if !g.remapsInterrupts() {
		return nil
	}
	return []libvirtxml.DomainIOMMU{{Model: "intel", Driver: &libvirtxml.DomainIOMMUDriver{IntRemap: "on", EIM: "on", CachingMode: "on", AWBits: addressBits}}}
}
