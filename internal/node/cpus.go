package node

import (
	"context"
	"sync"

	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
	v1 "kubevirt.io/api/core/v1"
)

// freeCPUs are the CPUs that a guest with dedicatedCpuPlacement may have: those of this machine that no other active domain is
// pinned to, and that no profile keeps for the host. The guest's NUMA cells are chosen among them at its first boot.
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
	for _, cell := range m.Host.NUMA {
		for _, cpu := range cell.CPUs {
			if !taken.Contains(cpu.ID) {
				free = append(free, cpu.ID)
			}
		}
	}
	return free, nil
}

func dedicated(vmi *v1.VirtualMachineInstance) bool {
	cpu := vmi.Spec.Domain.CPU
	return cpu != nil && cpu.DedicatedCPUPlacement
}

// promised are the CPUs of guests that are being started, which libvirt does not tell of yet: of two guests that start at the same
// time, each would find the same CPUs free. Whoever chooses holds the mutex until the choice is made.
type promised struct {
	sync.Mutex
	cpus map[types.UID]cpuset.CPUSet
}

// others are those of guests other than one.
func (p *promised) others(uid types.UID) cpuset.CPUSet {
	all := cpuset.New()
	for guest, cpus := range p.cpus {
		if guest != uid {
			all = all.Union(cpus)
		}
	}
	return all
}

func (p *promised) promise(uid types.UID, cpus cpuset.CPUSet) {
	if p.cpus == nil {
		p.cpus = map[types.UID]cpuset.CPUSet{}
	}
	p.cpus[uid] = cpus
}

// release ends a promise: the guest runs, and libvirt tells of it, or it does not.
func (p *promised) release(uid types.UID) {
	p.Lock()
	defer p.Unlock()
	delete(p.cpus, uid)
}
