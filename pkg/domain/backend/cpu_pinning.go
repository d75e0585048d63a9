package backend

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/cpuset"
	v1 "kubevirt.io/api/core/v1"
)

// Chooses the host CPUs of a VMI with dedicatedCpuPlacement. Its cores get whole cores of the host, then CPUs that are left of others, all in one
// NUMA node if one has enough. With numa.guestMappingPassthrough each NUMA node of the guest is on one of the host.
// As in KubeVirt (converter/vcpu/vcpu.go), threads of a supplemental pool and the isolated emulator take one more CPU each.

// pinning is the CPUs and NUMA nodes that the VMI gets, in the host's numbering.
type pinning struct {
	// vcpus has the CPU of each vCPU that is enabled at boot, pool the CPU of each thread of the supplemental pool.
	vcpus, pool, emulator []int
	// nodes has the NUMA node of the host for each of the guest's, in the guest's order. It is empty unless the VMI mirrors NUMA nodes.
	nodes []int
	// floating is the set of CPUs that all vCPUs share with hostProfile.cpu.pinStrategy 'None', else empty.
	floating cpuset.CPUSet
}

// choosePinning returns nil for a VMI without dedicated CPUs, and, with an error, if the host has too few.
func (h *host) choosePinning() *pinning {
	cpu := h.spec.Domain.CPU
	if cpu == nil || !cpu.DedicatedCPUPlacement {
		return nil
	}
	vcpus, pool, hostNodes := h.startingCPUs(), int(h.plan.pool), h.hostNodes()
	extra := pool + h.emulatorCPUs(vcpus+pool)
	if have := totalCPUs(hostNodes); have < vcpus+extra {
		h.addError(field.Invalid(h.domain.Child("cpu", "dedicatedCpuPlacement"), true,
			fmt.Sprintf("the VMI needs %d dedicated CPUs, and %s has %d for it", vcpus+extra, h.nodeName(), have)))
		return nil
	}
	p := &pinning{}
	if nodes := h.guestNUMANodes(); h.mirrorsNUMA() && len(nodes) > 0 {
		if err := CheckUnboundMemory(h.VMI, h.Host, h.Bindings); err != nil {
			h.addError(err)
			return nil
		}
		if p.nodes, p.vcpus = h.mirrorNUMANodes(nodes, hostNodes); p.nodes == nil {
			return nil
		}
		otherNode := func(r *hostNode) bool { return !slices.Contains(p.nodes, r.id) }
		hostNodes = append(slices.DeleteFunc(slices.Clone(hostNodes), otherNode), hostNodes...) // the guest's own NUMA nodes first
	} else {
		d := demand{vcpus / h.threadsPerCore(), h.threadsPerCore(), extra}
		if crossing := h.policy.CPU.AllowNUMANodeCrossing; crossing != nil && !*crossing && !slices.ContainsFunc(hostNodes, d.fitsNode) {
			h.addError(field.Invalid(h.domain.Child("cpu", "dedicatedCpuPlacement"), true, fmt.Sprintf(
				"the VMI needs %d CPUs of one NUMA node because hostProfile.cpu.allowNUMANodeCrossing is 'false'; %s has: %s",
				vcpus+extra, h.nodeName(), describeHostNodes(hostNodes))))
			return nil
		}
		p.vcpus, hostNodes = placeVCPUs(hostNodes, d)
	}
	rest := takeCPUs(hostNodes, extra)
	p.pool, p.emulator = rest[:pool], rest[pool:]
	if h.policy.CPU.PinStrategy == "none" {
		p.floating = cpuset.New(p.vcpus...)
	}
	return p
}

// startingCPUs returns the number of vCPUs at boot, without the hot-pluggable ones.
func (h *host) startingCPUs() int {
	if v := h.Frontend.VCPU; v.Current > 0 {
		return int(v.Current)
	}
	return int(h.Frontend.VCPU.Value)
}

// threadsPerCore returns the threads of a core of the guest.
func (h *host) threadsPerCore() int {
	if c := h.Frontend.CPU; c != nil && c.Topology != nil {
		return max(1, c.Topology.Threads)
	}
	return 1
}

// emulatorCPUs returns how many CPUs isolateEmulatorThread adds for QEMU's other threads. The annotation, which the cluster's configuration sets,
// adds a second one if the number of all other CPUs is even: a kubelet with full-pcpus-only gives out whole cores only.
func (h *host) emulatorCPUs(others int) int {
	if !h.spec.Domain.CPU.IsolateEmulatorThread {
		return 0
	}
	if _, even := h.VMI.Annotations[v1.EmulatorThreadCompleteToEvenParity]; even && others%2 == 0 {
		return 2
	}
	return 1
}

// demand is what the VMI needs: cores, threads of each core, and CPUs for the emulator and the supplemental pool.
type demand struct{ cores, threads, extra int }

func (d demand) fitsNode(r *hostNode) bool { return r.freeCPUs() >= d.cores*d.threads+d.extra }

// placeVCPUs takes the CPUs from the NUMA node with the fewest free CPUs that fits everything, so that large nodes stay free for large VMIs. Where
// none fits, it fills the nodes with the most free CPUs first. Nodes with the VMI's host devices come before others. It returns the nodes in
// the order of their use, for the CPUs of the emulator and the pool.
func placeVCPUs(hostNodes []*hostNode, d demand) ([]int, []*hostNode) {
	order := slices.Clone(hostNodes)
	slices.SortStableFunc(order, func(a, b *hostNode) int {
		return cmp.Or(rankByDevices(a)-rankByDevices(b), cmp.Compare(b.freeCPUs(), a.freeCPUs()))
	})
	best := -1
	for i, r := range order {
		if d.fitsNode(r) && (best < 0 || rankByDevices(r) == rankByDevices(order[best]) && r.freeCPUs() <= order[best].freeCPUs()) {
			best = i
		}
	}
	if best > 0 {
		order[0], order[best] = order[best], order[0]
	}
	var out []int
	for _, r := range order { // no core of the guest is split over two NUMA nodes while whole ones fit
		missing := d.cores - len(out)/d.threads
		out = append(out, r.takeCores(min(missing, r.freeCPUs()/d.threads), d.threads)...)
	}
	return append(out, takeCPUs(order, d.cores*d.threads-len(out))...), order
}

// rankByDevices returns a number that sorts nodes with host devices of the VMI first.
func rankByDevices(r *hostNode) int {
	if r.hasDevice {
		return 0
	}
	return 1
}

// freeCPUs returns the bound CPUs without hostProfile.cpu.reservedHostCPUs.
func (h *host) freeCPUs() cpuset.CPUSet {
	return cpuset.New(h.Bindings.CPUs...).Difference(h.parseCPUs(h.policy.CPU.ReservedHostCPUs, "reservedHostCPUs"))
}

// deviceNUMANodes returns the NUMA nodes of the VMI's host devices with hostProfile.numa.followDevices, else nothing.
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

// takeCPUs takes n CPUs of any core, from the first node that has some.
func takeCPUs(hostNodes []*hostNode, n int) []int {
	var out []int
	for _, r := range hostNodes {
		out = append(out, r.takeCores(n-len(out), 1)...)
	}
	return out
}
