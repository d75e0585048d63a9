package launch

import (
	"context"
	"sync"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// numaCell reads one cell. libvirt prints memory and page sizes in KiB here, always.
func numaCell(cell libvirtxml.CapsHostNUMACell) backend.Cell {
	facts := backend.Cell{ID: cell.ID}
	if cell.Memory != nil {
		facts.MemoryKiB = cell.Memory.Size
	}
	for _, page := range cell.PageInfo {
		if facts.Pages == nil {
			facts.Pages = map[uint64]uint64{}
		}
		facts.Pages[uint64(page.Size)] = page.Count
	}
	if cell.Distances != nil {
		facts.Distances = map[int]uint{}
		for _, to := range cell.Distances.Siblings {
			facts.Distances[to.ID] = uint(to.Value)
		}
	}
	if cell.CPUS == nil {
		return facts // memory without CPUs
	}
	for _, cpu := range cell.CPUS.CPUs {
		if cpu.SocketID == nil && cpu.CoreID == nil && cpu.Siblings == "" {
			continue // offline
		}
		facts.CPUs = append(facts.CPUs, backend.CPU{ID: cpu.ID, Socket: known(cpu.SocketID), Die: known(cpu.DieID), Core: known(cpu.CoreID)})
	}
	return facts
}

func known(id *int) int {
	if id == nil {
		return 0
	}
	return *id
}

// ownCPUs are the CPUs that a guest with dedicatedCpuPlacement may have: those of this machine that no other active domain is
// pinned to, and that no profile keeps for the host. They are told before the guest's NUMA cells are chosen at its first boot. Nil
// for other guests.
func (n *Node) ownCPUs(ctx context.Context, vmi *v1.VirtualMachineInstance, profiles []v1alpha1.HostProfile) ([]int, error) {
	if !dedicated(vmi) {
		return nil, nil
	}
	taken, err := n.Libvirt.pinned(ctx, n.owner(vmi).domain())
	if err != nil {
		return nil, err
	}
	taken = taken.Union(n.cpus.others(vmi.UID))
	facts := n.Host.facts()
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

// pinned are the CPUs that active domains other than one are pinned to, whoever made those.
func (l *Libvirt) pinned(ctx context.Context, except string) (all cpuset.CPUSet, err error) {
	err = l.asking(ctx, func(rpc *libvirt.Libvirt) error {
		domains, _, err := rpc.ConnectListAllDomains(1, libvirt.ConnectListDomainsActive)
		if err != nil {
			return err
		}
		for _, domain := range domains {
			if domain.Name == except {
				continue
			}
			xml, err := rpc.DomainGetXMLDesc(domain, 0)
			if libvirt.IsNotFound(err) {
				continue // it has just ended
			}
			if err != nil {
				return err
			}
			var document libvirtxml.Domain
			if err := document.Unmarshal(xml); err != nil {
				return err
			}
			all = all.Union(pins(document.CPUTune))
		}
		return nil
	})
	return all, err
}

// pins are the CPUs that a domain's vCPUs, emulator and IO threads are pinned to.
func pins(tune *libvirtxml.DomainCPUTune) cpuset.CPUSet {
	all := cpuset.New()
	if tune == nil {
		return all
	}
	var lists []string
	for _, pin := range tune.VCPUPin {
		lists = append(lists, pin.CPUSet)
	}
	for _, pin := range tune.IOThreadPin {
		lists = append(lists, pin.CPUSet)
	}
	if tune.EmulatorPin != nil {
		lists = append(lists, tune.EmulatorPin.CPUSet)
	}
	for _, list := range lists {
		// libvirt may write exclusions ('0-3,^2'), which are not of this form; it never does so when it prints.
		if cpus, err := cpuset.Parse(list); err == nil {
			all = all.Union(cpus)
		}
	}
	return all
}
