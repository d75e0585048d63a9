package node

import (
	"context"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
	v1 "kubevirt.io/api/core/v1"
)

// ownCPUs are the CPUs that a guest with dedicatedCpuPlacement may have: those of this machine that no other active domain is
// pinned to, and that no profile keeps for the host. They are told before the guest's NUMA cells are chosen at its first boot. Nil
// for other guests.
func (n *Node) ownCPUs(ctx context.Context, vmi *v1.VirtualMachineInstance, profiles []v1alpha1.HostProfile) ([]int, error) {
	if !dedicated(vmi) {
		return nil, nil
	}
	taken, err := n.Hypervisor.Pinned(ctx, n.owner(vmi).Domain())
	if err != nil {
		return nil, err
	}
	taken = taken.Union(n.cpus.others(vmi.UID))
	facts := n.facts()
	if policy, errs := backend.Policy(profiles, vmi, facts); len(errs) == 0 && policy.CPU != nil {
		if reserved, err := cpuset.Parse(policy.CPU.ReservedHostCPUs); err == nil { // rendering reports what is wrong
			taken = taken.Union(reserved)
		}
	}
	var free []int
	for _, cell := range facts.NUMA {
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
