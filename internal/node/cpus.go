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

// render renders the documents, and reserves the CPUs of a VMI with dedicatedCpuPlacement. The reservation lasts until release, which its caller
// calls when libvirt reports the CPUs or the start has failed. The errors are refusals.
func (n *Node) render(ctx context.Context, m render.Machine) (rendered render.Result, err error) {
	if dedicated(m.VMI) {
		n.cpus.Lock()
		defer n.cpus.Unlock()
		if m.Bindings.CPUs, err = n.freeCPUs(ctx, m); err != nil {
			return rendered, err
		}
	}
	rendered, errs := render.Domain(m)
	if len(errs) > 0 {
		return rendered, guest.NotRendered(errs)
	}
	if dedicated(m.VMI) {
		n.cpus.reserve(m.VMI.UID, hypervisor.Pins(rendered.Documents.Domain.CPUTune))
	}
	return rendered, nil
}

// freeCPUs returns the CPUs that a VMI with dedicatedCpuPlacement may get: those of this machine that no other active domain is pinned to,
// and that no HostProfile reserves for the host. The VMI's NUMA nodes are chosen among them at its first boot.
func (n *Node) freeCPUs(ctx context.Context, m render.Machine) ([]int, error) {
	taken, err := n.Hypervisor.Pinned(ctx, n.owner(m.VMI).Domain())
	if err != nil {
		return nil, err
	}
	taken = taken.Union(n.cpus.others(m.VMI.UID))
	if m.Policy.CPU != nil {
		if reserved, err := cpuset.Parse(m.Policy.CPU.ReservedHostCPUs); err == nil { // rendering reports what is wrong
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

// dedicated reports whether each vCPU of the VMI gets a CPU of the host for itself (spec.domain.cpu.dedicatedCpuPlacement).
func dedicated(vmi *v1.VirtualMachineInstance) bool {
	cpu := vmi.Spec.Domain.CPU
	return cpu != nil && cpu.DedicatedCPUPlacement
}

// cpuReservations are the CPUs of VMIs that are being started, which libvirt does not report yet: two VMIs that start at the same time
// would otherwise get the same CPUs. The mutex is held from the choice of CPUs until they are reserved.
type cpuReservations struct {
	sync.Mutex
	cpus map[types.UID]cpuset.CPUSet
}

// others returns the CPUs that are reserved for VMIs other than one.
func (r *cpuReservations) others(uid types.UID) cpuset.CPUSet {
	all := cpuset.New()
	for owner, cpus := range r.cpus {
		if owner != uid {
			all = all.Union(cpus)
		}
	}
	return all
}

// reserve requires the mutex.
func (r *cpuReservations) reserve(uid types.UID, cpus cpuset.CPUSet) {
	if r.cpus == nil {
		r.cpus = map[types.UID]cpuset.CPUSet{}
	}
	r.cpus[uid] = cpus
}

// release ends a reservation: libvirt reports the CPUs of a VMI that runs, and one that failed to start needs none.
func (r *cpuReservations) release(uid types.UID) {
	r.Lock()
	defer r.Unlock()
	delete(r.cpus, uid)
}
