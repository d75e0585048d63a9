package backend

import "github.com/kilnvm/kiln/api/v1alpha1"

// A libvirt of an unprivileged user, in a pod of the restricted profile, has no cgroups, no network filters and no devices of the node. It has only the system
// calls that the container runtime's seccomp profile allows. libvirt refuses a domain that requires more ("CPU tuning is not available in session mode"), or
// fails to start it ("Cannot set scheduler parameters: Operation not permitted").

// InSession returns the part of a policy that such a libvirt supports, and the paths of the fields that it drops, such as cpu.shares. A pod has other means for
// them: its requests and limits, kubelet's CPU and topology managers, the network of the cluster.
func InSession(policy v1alpha1.HostPolicy) (v1alpha1.HostPolicy, []string) {
	served := *policy.DeepCopy()
	served.BlockIO, served.Cache, served.NUMA, served.Net = nil, nil, nil, nil
	// Paths and devices of the node, and labels that its libvirt gives.
	served.RNG, served.SerialLog, served.Security, served.PathTemplates = withoutSource(served.RNG), nil, nil, nil
	if cpu := served.CPU; cpu != nil {
		cpu.Shares, cpu.PeriodMicroseconds, cpu.QuotaMicroseconds, cpu.EmulatorQuotaMicroseconds = nil, nil, nil, nil
		cpu.EmulatorCPUs, cpu.ReservedHostCPUs = "", "" // kubelet has chosen the CPUs
		if s := cpu.VCPUScheduler; s != nil && (s.Policy == "FIFO" || s.Policy == "RoundRobin") {
			cpu.VCPUScheduler = nil
		}
	}
	if threads := served.IOThreads; threads != nil {
		threads.CPUs = ""
	}
	if memory := served.Memory; memory != nil {
		memory.HugePageSizes = nil // a pod gets those that it requests
		memory.Locked = nil
		memory.HardLimit, memory.SoftLimit, memory.SwapHardLimit = nil, nil, nil
	}
	return served, PolicyChanges(policy, served)
}

func withoutSource(p *v1alpha1.RNGPolicy) *v1alpha1.RNGPolicy {
	if p != nil {
		p.Source = ""
	}
	return p
}
