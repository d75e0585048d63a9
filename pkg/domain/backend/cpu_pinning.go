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
// others, all in one NUMA cell where one has room; a guest that mirrors NUMA cells never has a cell of its own spread over two.
// As in KubeVirt, threads of a supplemental pool and the isolated emulator take one more CPU each.

// pinning is where the guest runs. Numbers are the host's.
type pinning struct {
	// vcpus is the CPU of each vCPU that the guest starts with, pool that of each thread of the supplemental pool.
	vcpus, pool, emulator []int
	// cells is the cell for each of the guest's.
	cells []int
}

// pinning is nil for guests without CPUs of their own, and where there are too few.
func (h *host) pinning() *pinning {
	cpu := h.spec.Domain.CPU
	if cpu == nil || !cpu.DedicatedCPUPlacement {
		return nil
	}
	vcpus, pool, rooms := h.startingCPUs(), int(h.threadPlan().pool), h.rooms()
	extra := pool + h.emulatorCPUs(vcpus+pool)
	if have := total(rooms); have < vcpus+extra {
		h.fail(field.Invalid(h.domain.Child("cpu", "dedicatedCpuPlacement"), true,
			fmt.Sprintf("the guest needs %d CPUs of its own, %s has %d for it", vcpus+extra, h.node(), have)))
		return nil
	}
	p := &pinning{}
	if cells := h.guestCells(); cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil && len(cells) > 0 {
		if p.cells, p.vcpus = h.mirror(cells, rooms); p.cells == nil {
			return nil
		}
		away := func(r *room) bool { return !slices.Contains(p.cells, r.id) }
		rooms = append(slices.DeleteFunc(slices.Clone(rooms), away), rooms...) // the guest's own cells first
	} else {
		p.vcpus, rooms = local(rooms, demand{vcpus / h.threads(), h.threads(), extra})
	}
	rest := takeAny(rooms, extra)
	p.pool, p.emulator = rest[:pool], rest[pool:]
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

// room is what the guest may have of one NUMA cell of the host.
type room struct {
	id int
	// cores are the free CPUs by core, those with the most first.
	cores     [][]int
	memoryKiB uint64
	pages     map[uint64]uint64
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

// rooms of the host, in its order. A host that tells no cells has one, in which each CPU is a core.
func (h *host) rooms() []*room {
	if len(h.Host.NUMA) == 0 {
		r := &room{id: -1}
		for _, id := range h.Bindings.CPUs {
			r.cores = append(r.cores, []int{id})
		}
		return []*room{r}
	}
	free := cpuset.New(h.Bindings.CPUs...)
	var rooms []*room
	for _, cell := range h.Host.NUMA {
		r := &room{id: cell.ID, memoryKiB: cell.MemoryKiB, pages: cell.Pages}
		index := map[[3]int]int{} // by socket, die and core
		for _, cpu := range cell.CPUs {
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

// local takes the CPUs from the fullest cell that has room for everything, else from the roomiest ones on, and returns the rooms
// in the order of their use.
func local(rooms []*room, d demand) ([]int, []*room) {
	order := slices.Clone(rooms)
	slices.SortStableFunc(order, func(a, b *room) int { return cmp.Compare(b.cpus(), a.cpus()) })
	for i, r := range slices.Backward(order) {
		if r.cpus() >= d.cores*d.threads+d.extra {
			order[0], order[i] = order[i], order[0]
			break
		}
	}
	var out []int
	for _, r := range order { // whole cores of the guest within a cell
		missing := d.cores - len(out)/d.threads
		out = append(out, r.take(min(missing, r.cpus()/d.threads), d.threads)...)
	}
	return append(out, takeAny(order, d.cores*d.threads-len(out))...), order
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
		words = append(words, fmt.Sprintf("cell %d: %d CPUs, %d KiB", r.id, r.cpus(), r.memoryKiB))
	}
	return strings.Join(words, "; ")
}
