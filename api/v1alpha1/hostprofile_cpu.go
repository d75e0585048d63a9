package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// CPUPolicy decides on which host CPUs a guest's CPUs run, and for how long. Domain: cputune.
type CPUPolicy struct {
	// shares is the weight of the VMI's CPU time against other VMIs when CPUs are scarce. No unit; 2 to 262144. Default: the weight of the
	// host's cgroup, usually 1024. Domain: cputune/shares.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=262144
	Shares *int64 `json:"shares,omitempty"`
	// periodMicroseconds is the period of both quotas, in microseconds; 1000 to 1000000. Default: libvirt's, 100000.
	// Domain: cputune/period and cputune/emulator_period.
	// +kubebuilder:validation:Minimum=1000
	// +kubebuilder:validation:Maximum=1000000
	PeriodMicroseconds *int64 `json:"periodMicroseconds,omitempty"`
	// quotaMicroseconds is how long each vCPU may run in a period, in microseconds; 1000 to 17592186044415. Default: no limit.
	// Domain: cputune/quota.
	// +kubebuilder:validation:Minimum=1000
	// +kubebuilder:validation:Maximum=17592186044415
	QuotaMicroseconds *int64 `json:"quotaMicroseconds,omitempty"`
	// emulatorQuotaMicroseconds is how long QEMU's other threads together may run in a period, in microseconds; 1000 to 17592186044415.
	// Default: no limit. Domain: cputune/emulator_quota.
	// +kubebuilder:validation:Minimum=1000
	// +kubebuilder:validation:Maximum=17592186044415
	EmulatorQuotaMicroseconds *int64 `json:"emulatorQuotaMicroseconds,omitempty"`
	// vcpuScheduler is the scheduler of the threads that run vCPUs. A VMI with realtime uses its own scheduler. Domain: cputune/vcpusched.
	VCPUScheduler *SchedulerPolicy `json:"vcpuScheduler,omitempty"`
	// emulatorCPUs are the host CPUs of QEMU's other threads, unless the VMI isolates them: a list such as '0-1,8'. Default: all CPUs that the VMI may use.
	// Domain: cputune/emulatorpin.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.matches('^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$') && self.split(',').all(r, !r.contains('-') || int(r.split('-')[0]) <= int(r.split('-')[1]))`,message="must be a list of CPUs such as '0-3,8'"
	EmulatorCPUs string `json:"emulatorCPUs,omitempty"`
	// reservedHostCPUs are the host CPUs that no VMI with dedicated CPUs gets: a list such as '0-1,8'. Default: none. Domain: none; it
	// limits the choice for cputune/vcpupin.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.matches('^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$') && self.split(',').all(r, !r.contains('-') || int(r.split('-')[0]) <= int(r.split('-')[1]))`,message="must be a list of CPUs such as '0-3,8'"
	ReservedHostCPUs string `json:"reservedHostCPUs,omitempty"`
	// pinStrategy is how a VMI with dedicated CPUs gets them. 'Compact' fills whole cores of one NUMA node; 'Spread' takes a core for each vCPU before it takes
	// second threads of cores; 'None' lets vCPUs float among the CPUs of the VMI. Default: Compact. Domain: cputune/vcpupin, and vcpu@cpuset for 'None'.
	// +kubebuilder:validation:Enum=Compact;Spread;None
	PinStrategy string `json:"pinStrategy,omitempty"`
	// allowNUMANodeCrossing decides whether dedicated CPUs may come from several NUMA nodes if no single node contains enough. 'false' refuses the start instead.
	// Default: true. Domain: none; it limits the choice for cputune/vcpupin.
	AllowNUMANodeCrossing *bool `json:"allowNUMANodeCrossing,omitempty"`
}

// SchedulerPolicy is a scheduler of Linux. Domain: cputune/vcpusched.
// +kubebuilder:validation:XValidation:rule=`!has(self.priority) || !has(self.policy) || self.policy in ['FIFO', 'RoundRobin']`,message="only policies FIFO and RoundRobin have a priority",fieldPath=`.priority`
type SchedulerPolicy struct {
	// policy is the scheduler's name. Default: the host's own. Domain: cputune/vcpusched@scheduler.
	// +kubebuilder:validation:Enum=FIFO;RoundRobin;Batch;Idle
	Policy string `json:"policy,omitempty"`
	// priority is only for 'FIFO' and 'RoundRobin'; 1 to 99, the highest first. Domain: cputune/vcpusched@priority.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	Priority *int32 `json:"priority,omitempty"`
}

// CachePolicy reserves parts of the processor's cache and of memory bandwidth for a VMI's CPUs (resctrl). Hosts that emulate refuse a CachePolicy.
type CachePolicy struct {
	// l3Sizes are the VMI's parts of each level 3 cache of the host, in the host's order, in bytes, rounded up to KiB. 0 leaves a cache to all. At most 64.
	// Default: no reserved part. Domain: cputune/cachetune/cache@size.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:XValidation:rule=`quantity(string(self)).isInteger() && quantity(string(self)).asInteger() >= 0`,message="must be 0 or a positive whole number, such as 512Ki or 2Mi"
	L3Sizes []resource.Quantity `json:"l3Sizes,omitempty"`
	// memoryBandwidthPercents are the VMI's parts of the bandwidth of each NUMA node of the host, in the host's order, in percent; 0 to 100. 0 leaves a NUMA node
	// to all. At most 64. Default: no reserved part. Domain: cputune/memorytune/node@bandwidth.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=100
	MemoryBandwidthPercents []int32 `json:"memoryBandwidthPercents,omitempty"`
}

// MemoryPolicy is the backing of a guest's memory. Domain: memoryBacking and memtune.
// +kubebuilder:validation:XValidation:rule=`!has(self.hardLimit) || !has(self.swapHardLimit) || quantity(string(self.swapHardLimit)).compareTo(quantity(string(self.hardLimit))) >= 0`,message="must not be below hardLimit, which it includes",fieldPath=`.swapHardLimit`
type MemoryPolicy struct {
	// hugePageSizes are sizes of huge pages, in bytes, for a VMI that does not ask for huge pages. The first size counts that divides the guest's memory and of
	// which the host provides enough pages. At least 1Ki each; at most 8. Default: ordinary pages. Domain: memoryBacking/hugepages/page@size.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:XValidation:rule=`quantity(string(self)).isInteger() && quantity(string(self)).compareTo(quantity('1Ki')) >= 0`,message="must be a size such as '2Mi'"
	HugePageSizes []resource.Quantity `json:"hugePageSizes,omitempty"`
	// backing is the source of the memory. Default: QEMU's choice, and 'Memfd' if another process maps the memory.
	// Domain: memoryBacking/source@type.
	// +kubebuilder:validation:Enum=Memfd;File;Anonymous
	Backing string `json:"backing,omitempty"`
	// locked keeps the guest's memory from being swapped out. Default: false. Domain: memoryBacking/locked.
	Locked *bool `json:"locked,omitempty"`
	// disablePageMerging keeps the kernel (KSM) from merging equal pages of several guests. Default: false, and true for a VMI with realtime. Domain:
	// memoryBacking/nosharepages.
	DisablePageMerging *bool `json:"disablePageMerging,omitempty"`
	// allocation is when the host sets memory aside: all memory at the start, or each page at its first use. Default: OnDemand; Immediate for a VMI whose NUMA
	// nodes mirror the host's. Domain: memoryBacking/allocation@mode.
	// +kubebuilder:validation:Enum=Immediate;OnDemand
	Allocation string `json:"allocation,omitempty"`
	// allocationThreads is the number of threads that set memory aside; 1 to 1024. Default: QEMU's. Domain: memoryBacking/allocation@threads.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	AllocationThreads *int32 `json:"allocationThreads,omitempty"`
	// hardLimit is the most memory that the whole QEMU process may use, including the guest's memory, in bytes, rounded up to KiB. The kernel kills a VMI above
	// the limit. A VMI whose memory does not fit is refused. Default: no limit. Domain: memtune/hard_limit.
	HardLimit *resource.Quantity `json:"hardLimit,omitempty"`
	// softLimit is the memory that the QEMU process keeps when the host is short of memory, in bytes, rounded up to KiB. Default: no limit.
	// Domain: memtune/soft_limit.
	SoftLimit *resource.Quantity `json:"softLimit,omitempty"`
	// swapHardLimit is the most memory and swap together that the QEMU process may use, in bytes, rounded up to KiB. Default: no limit.
	// Domain: memtune/swap_hard_limit.
	SwapHardLimit *resource.Quantity `json:"swapHardLimit,omitempty"`
	// discard throws the content of the memory away when the VMI ends, instead of writing it back to a file. Default: false.
	// Domain: memoryBacking/discard.
	Discard *bool `json:"discard,omitempty"`
}

// NUMAPolicy decides where the memory of a VMI with dedicated CPUs comes from. Domain: numatune.
type NUMAPolicy struct {
	// mode is how memory is taken from the NUMA nodes of the guest's CPUs. Default: no rule; 'Strict' for a VMI whose NUMA nodes mirror the
	// host's, which no other value may replace. Domain: numatune/memory@mode.
	// +kubebuilder:validation:Enum=Strict;Preferred;Interleave
	Mode string `json:"mode,omitempty"`
	// followDevices takes CPUs of the NUMA node of the VMI's host devices first. Default: false. Domain: none; it orders the choice for
	// cputune/vcpupin.
	FollowDevices *bool `json:"followDevices,omitempty"`
}
