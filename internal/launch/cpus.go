package launch

import (
	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
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
func (n *Node) ownCPUs(vmi *v1.VirtualMachineInstance, profiles []v1alpha1.HostProfile) ([]int, error) {
	if cpu := vmi.Spec.Domain.CPU; cpu == nil || !cpu.DedicatedCPUPlacement {
		return nil, nil
	}
	taken, err := n.Libvirt.pinned(domainName(vmi))
	if err != nil {
		return nil, err
	}
	if policy, errs := backend.Policy(profiles, vmi, n.Host.Capabilities); len(errs) == 0 && policy.CPU != nil {
		if reserved, err := cpuset.Parse(policy.CPU.ReservedHostCPUs); err == nil { // rendering reports what is wrong
			taken = taken.Union(reserved)
		}
	}
	var free []int
	for _, cell := range n.Host.Capabilities.NUMA {
		for _, cpu := range cell.CPUs {
			if !taken.Contains(cpu.ID) {
				free = append(free, cpu.ID)
			}
		}
	}
	return free, nil
}

// pinned are the CPUs that active domains other than one are pinned to, whoever made those.
func (l *Libvirt) pinned(except string) (cpuset.CPUSet, error) {
	all := cpuset.New()
	rpc, err := l.connection()
	if err != nil {
		return all, err
	}
	domains, _, err := rpc.ConnectListAllDomains(1, libvirt.ConnectListDomainsActive)
	if err != nil {
		return all, err
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
			return all, err
		}
		var document libvirtxml.Domain
		if err := document.Unmarshal(xml); err != nil {
			return all, err
		}
		all = all.Union(pins(document.CPUTune))
	}
	return all, nil
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
