package node

import (
	"context"
	"sync"

	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
	v1 "kubevirt.io/api/core/v1"
)

// renderDomain renders the documents, and reserves the CPUs of a VMI with dedicatedCpuPlacement. The caller must call cpuReservations.release when libvirt
// reports the CPUs or the start has failed. Errors of rendering are refusals.
func (n *Node) renderDomain(ctx context.Context, m render.Machine) (rendered render.Result, err error) {
	if hasDedicatedCPUs(m.VMI) {
		n.cpuReservations.Lock()
		defer n.cpuReservations.Unlock()
		if m.Bindings.CPUs, err = n.freeCPUs(ctx, m); err != nil {
			return rendered, err
		}
	}
	rendered, errs := render.Domain(m)
	if len(errs) > 0 {
		return rendered, guest.NotRendered(errs)
	}
	if hasDedicatedCPUs(m.VMI) {
		n.cpuReservations.reserve(m.VMI.UID, hypervisor.Pins(rendered.Documents.Domain.CPUTune))
	}
	return rendered, nil
}

// freeCPUs returns the CPUs of this machine that a VMI with dedicatedCpuPlacement may get: CPUs to which no other active domain is pinned, and which no
// HostProfile reserves for the host. The VMI's NUMA nodes are chosen among them at its first boot.
func (n *Node) freeCPUs(ctx context.Context, m render.Machine) ([]int, error) {
	taken, err := n.Hypervisor.Pinned(ctx, n.owner(m.VMI).Domain())
	if err != nil {
		return nil, err
	}
	taken = taken.Union(n.cpuReservations.reservedByOthers(m.VMI.UID))
	if m.Policy.CPU != nil {
		if reserved, err := cpuset.Parse(m.Policy.CPU.ReservedHostCPUs); err == nil { // rendering reports the error
			taken = taken.Union(reserved)
		}
	}
	var free []int
	for _, node := range m.Host.NUMA {
		for _, cpu := range node.CPUs {
			if !taken.Contains(cpu.ID) {
				free = append(free, cpu.ID)
			}
		}
	}
	return free, nil
}

// hasDedicatedCPUs reports whether each vCPU of the VMI is pinned to its own CPU of the host (spec.domain.cpu.dedicatedCpuPlacement).
func hasDedicatedCPUs(vmi *v1.VirtualMachineInstance) bool {
	cpu := vmi.Spec.Domain.CPU
	return cpu != nil && cpu.DedicatedCPUPlacement
}

// cpuReservations contains the CPUs of VMIs that are being started, which libvirt does not report yet. Without them, two VMIs that start at the same time would
// get the same CPUs. The mutex must be held from the choice of CPUs until their reservation.
type cpuReservations struct {
	sync.Mutex
	cpus map[types.UID]cpuset.CPUSet
}

// reservedByOthers returns the CPUs that are reserved for VMIs other than uid. It requires the mutex.
func (r *cpuReservations) reservedByOthers(uid types.UID) cpuset.CPUSet {
	all := cpuset.New()
	for owner, cpus := range r.cpus {
		if owner != uid {
			all = all.Union(cpus)
		}
	}
	return all
}

// reserve reserves the CPUs of a VMI. It requires the mutex.
func (r *cpuReservations) reserve(uid types.UID, cpus cpuset.CPUSet) {
	if r.cpus == nil {
		r.cpus = map[types.UID]cpuset.CPUSet{}
	}
	r.cpus[uid] = cpus
}

// release ends a reservation: libvirt reports the CPUs of a running VMI, and a VMI that failed to start needs no CPUs.
func (r *cpuReservations) release(uid types.UID) {
	r.Lock()
	defer r.Unlock()
	delete(r.cpus, uid)
}
