package backend

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/cpuset"
	v1 "kubevirt.io/api/core/v1"
)

// Which CPUs of the host a guest with dedicatedCpuPlacement gets: its cores whole cores of the host, then what is left of
// others, all in one NUMA node where one has room; a guest that mirrors NUMA nodes never has a NUMA node of its own spread over two.
// As in KubeVirt, threads of a supplemental pool and the isolated emulator take one more CPU each.

// pinning is where the guest runs. Numbers are the host's.
type pinning struct {
	// vcpus is the CPU of each vCPU that the guest starts with, pool that of each thread of the supplemental pool.
	vcpus, pool, emulator []int
	// nodes has the NUMA node of the host for each of the guest's.
	nodes []int
	// floating is all that the vCPUs may run on, where they are not to be pinned; else empty.
	floating cpuset.CPUSet
}

// pinning is nil for guests without CPUs of their own, and where there are too few.
func (h *host) pinning() *pinning {
	cpu := h.spec.Domain.CPU
	if cpu == nil || !cpu.DedicatedCPUPlacement {
		return nil
	}
	vcpus, pool, rooms := h.startingCPUs(), int(h.plan.pool), h.rooms()
	extra := pool + h.emulatorCPUs(vcpus+pool)
	if have := total(rooms); have < vcpus+extra {
		h.fail(field.Invalid(h.domain.Child("cpu", "dedicatedCpuPlacement"), true,
			fmt.Sprintf("the VMI needs %d dedicated CPUs, and %s has %d for it", vcpus+extra, h.node(), have)))
		return nil
	}
	p := &pinning{}
	if nodes := h.guestNUMANodes(); h.mirrored() && len(nodes) > 0 {
		if p.nodes, p.vcpus = h.mirror(nodes, rooms); p.nodes == nil {
			return nil
		}
		away := func(r *room) bool { return !slices.Contains(p.nodes, r.id) }
		rooms = append(slices.DeleteFunc(slices.Clone(rooms), away), rooms...) // the guest's own NUMA nodes first
	} else {
		d := demand{vcpus / h.threads(), h.threads(), extra}
		if crossing := h.policy.CPU.AllowNUMANodeCrossing; crossing != nil && !*crossing && !slices.ContainsFunc(rooms, d.fits) {
			h.fail(field.Invalid(h.domain.Child("cpu", "dedicatedCpuPlacement"), true, fmt.Sprintf(
				"the VMI needs %d CPUs of one NUMA node because hostProfile.cpu.allowNUMANodeCrossing is 'false'; %s has: %s", vcpus+extra, h.node(), offered(rooms))))
			return nil
		}
		p.vcpus, rooms = local(rooms, d)
	}
	rest := takeAny(rooms, extra)
	p.pool, p.emulator = rest[:pool], rest[pool:]
	if h.policy.CPU.PinStrategy == "none" {
		p.floating = cpuset.New(p.vcpus...)
	}
	return p
}

func (h *host) startingCPUs() int {
	if v := h.Frontend.VCPU; v.Current > 0 {
		return int(v.Current)
	}
	return int(h.Frontend.VCPU.Value)
}

// threads of a core of the guest.
func (h *host) threads() int {
	if c := h.Frontend.CPU; c != nil && c.Topology != nil {
		return max(1, c.Topology.Threads)
	}
	return 1
}

// emulatorCPUs is how many CPUs QEMU's other threads have to themselves. Where the cluster asks for it, a second one makes the
// number of the guest's CPUs even, for hosts that give out whole cores.
func (h *host) emulatorCPUs(others int) int {
	if !h.spec.Domain.CPU.IsolateEmulatorThread {
		return 0
	}
	if _, even := h.VMI.Annotations[v1.EmulatorThreadCompleteToEvenParity]; even && others%2 == 0 {
		return 2
	}
	return 1
}

// room is what the guest may have of one NUMA node of the host.
type room struct {
	id int
	// cores are the free CPUs by core, those with the most first.
	cores     [][]int
	memoryKiB uint64
	pages     map[uint64]uint64
	// spread takes a CPU of each core before second ones, for cores of the guest that have one thread.
	spread bool
	// near is a NUMA node of the guest's devices.
	near bool
}

func (r *room) cpus() int {
	n := 0
	for _, core := range r.cores {
		n += len(core)
	}
	return n
}

func total(rooms []*room) int {
	n := 0
	for _, r := range rooms {
		n += r.cpus()
	}
	return n
}

// rooms of the host, in its order. A host that tells no NUMA nodes has one, in which each CPU is a core.
func (h *host) rooms() []*room {
	free, near := h.freeCPUs(), h.deviceNUMANodes()
	if len(h.Host.NUMA) == 0 {
		r := &room{id: -1}
		for _, id := range free.List() {
			r.cores = append(r.cores, []int{id})
		}
		return []*room{r}
	}
	var rooms []*room
	for _, node := range h.Host.NUMA {
		r := &room{id: node.ID, memoryKiB: node.MemoryKiB, pages: node.Pages, spread: h.policy.CPU.PinStrategy == "spread", near: slices.Contains(near, node.ID)}
		index := map[[3]int]int{} // by socket, die and core
		for _, cpu := range node.CPUs {
			if !free.Contains(cpu.ID) {
				continue
			}
			key := [3]int{cpu.Socket, cpu.Die, cpu.Core}
			i, known := index[key]
			if !known {
				i = len(r.cores)
				index[key], r.cores = i, append(r.cores, nil)
			}
			r.cores[i] = append(r.cores[i], cpu.ID)
		}
		slices.SortStableFunc(r.cores, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
		rooms = append(rooms, r)
	}
	return rooms
}

// take removes CPUs for some cores of the guest, or fewer if there are no more.
func (r *room) take(cores, threads int) []int {
	var out []int
	if r.spread && threads == 1 {
		for taken := true; taken && len(out) < cores; {
			taken = false
			for i := range r.cores {
				if len(r.cores[i]) > 0 && len(out) < cores {
					out, r.cores[i], taken = append(out, r.cores[i][0]), r.cores[i][1:], true
				}
			}
		}
		return out
	}
	for _, step := range []int{threads, 1} { // whole cores, then fragments
		for i := range r.cores {
			for len(r.cores[i]) >= step && len(out)+step <= cores*threads {
				out = append(out, r.cores[i][:step]...)
				r.cores[i] = r.cores[i][step:]
			}
		}
	}
	return out
}

// demand is cores of the guest, their threads, and further CPUs.
type demand struct{ cores, threads, extra int }

func (d demand) fits(r *room) bool { return r.cpus() >= d.cores*d.threads+d.extra }

// local takes the CPUs from the fullest NUMA node that has room for everything, else from the roomiest ones on, and returns the rooms
// in the order of their use. Cells of the guest's devices come before others.
func local(rooms []*room, d demand) ([]int, []*room) {
	order := slices.Clone(rooms)
	slices.SortStableFunc(order, func(a, b *room) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(b.cpus(), a.cpus())) })
	best := -1
	for i, r := range order {
		if d.fits(r) && (best < 0 || rank(r) == rank(order[best]) && r.cpus() <= order[best].cpus()) {
			best = i
		}
	}
	if best > 0 {
		order[0], order[best] = order[best], order[0]
	}
	var out []int
	for _, r := range order { // whole cores of the guest within a NUMA node
		missing := d.cores - len(out)/d.threads
		out = append(out, r.take(min(missing, r.cpus()/d.threads), d.threads)...)
	}
	return append(out, takeAny(order, d.cores*d.threads-len(out))...), order
}

func rank(r *room) int {
	if r.near {
		return 0
	}
	return 1
}

// freeCPUs are those that the guest may have, without those that the administrator keeps for the host.
func (h *host) freeCPUs() cpuset.CPUSet {
	return cpuset.New(h.Bindings.CPUs...).Difference(h.cpus(h.policy.CPU.ReservedHostCPUs, "reservedHostCPUs"))
}

// deviceNUMANodes are the NUMA nodes of the guest's host devices, where its CPUs are to follow them.
func (h *host) deviceNUMANodes() []int {
	if follow := h.policy.NUMA.FollowDevices; follow == nil || !*follow {
		return nil
	}
	var nodes []int
	for _, device := range h.Bindings.HostDevs {
		if device.NUMANode != nil {
			nodes = append(nodes, *device.NUMANode)
		}
	}
	return nodes
}

func takeAny(rooms []*room, n int) []int {
	var out []int
	for _, r := range rooms {
		out = append(out, r.take(n-len(out), 1)...)
	}
	return out
}

// offered is the rooms in words.
func offered(rooms []*room) string {
	var words []string
	for _, r := range rooms {
		if r.id < 0 {
			return "none is known"
		}
		words = append(words, fmt.Sprintf("node %d: %d CPUs, %d KiB", r.id, r.cpus(), r.memoryKiB))
	}
	return strings.Join(words, "; ")
}
