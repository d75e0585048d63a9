package v1alpha1

// CPUPolicy is for where and how much a guest's CPUs run.
type CPUPolicy struct {
	// shares of the guest against others, 1024 being usual.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=262144
	Shares *int64 `json:"shares,omitempty"`
	// periodUs is the period of quotas in microseconds.
	// +kubebuilder:validation:Minimum=1000
	// +kubebuilder:validation:Maximum=1000000
	PeriodUs *int64 `json:"periodUs,omitempty"`
	// quotaUs is how long each CPU of the guest may run in a period, in microseconds.
	// +kubebuilder:validation:Minimum=1000
	QuotaUs *int64 `json:"quotaUs,omitempty"`
	// emulatorQuotaUs is how long QEMU's other threads may run in a period, in microseconds.
	// +kubebuilder:validation:Minimum=1000
	EmulatorQuotaUs *int64 `json:"emulatorQuotaUs,omitempty"`
	// vcpuSched is the scheduler of the guest's CPUs.
	VCPUSched *SchedPolicy `json:"vcpuSched,omitempty"`
	// emulatorCpus are the host's CPUs that QEMU's other threads run on, unless the guest isolates them. Such as '0-1'.
	EmulatorCPUs string `json:"emulatorCpus,omitempty"`
	// reservedHostCpus are given to no guest with dedicated CPUs.
	ReservedHostCPUs string `json:"reservedHostCpus,omitempty"`
	// pinStrategy of guests with dedicated CPUs: 'compact' fills whole cores of one NUMA cell, 'spread' takes cores of their own before
	// second threads, 'none' lets CPUs float among those that the guest may have.
	// +kubebuilder:validation:Enum=compact;spread;none
	PinStrategy string `json:"pinStrategy,omitempty"`
	// allowCellCrossing tells whether dedicated CPUs may come from several NUMA cells when none has enough; true if absent.
	AllowCellCrossing *bool `json:"allowCellCrossing,omitempty"`
}

// SchedPolicy is a scheduler of Linux.
type SchedPolicy struct {
	// +kubebuilder:validation:Enum=fifo;rr;batch;idle
	Policy string `json:"policy,omitempty"`
	// priority of 'fifo' and 'rr'.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	Priority *int32 `json:"priority,omitempty"`
}

// CachePolicy gives the guest's CPUs parts of the processor's cache and memory bandwidth (resctrl), one entry for each cache or
// NUMA node of the host, in their order.
type CachePolicy struct {
	// l3Kib is in KiB; 0 leaves a cache out.
	// +listType=atomic
	L3KiB []int64 `json:"l3Kib,omitempty"`
	// memBwPercent is in percent; 0 leaves a node out.
	// +listType=atomic
	MemBwPercent []int32 `json:"memBwPercent,omitempty"`
}

// MemoryPolicy is for what backs a guest's memory.
type MemoryPolicy struct {
	// hugepagePreference are sizes of huge pages, such as 1Gi, for guests that ask for none: the first that divides the guest's memory and
	// that the host has enough of.
	// +listType=atomic
	HugepagePreference []string `json:"hugepagePreference,omitempty"`
	// +kubebuilder:validation:Enum=memfd;file;anon
	Backing string `json:"backing,omitempty"`
	// locked keeps memory from being swapped out.
	Locked *bool `json:"locked,omitempty"`
	// nosharepages keeps the kernel from merging equal pages.
	NoSharePages *bool `json:"nosharepages,omitempty"`
	// allocation of memory: all at the start, or when it is used.
	// +kubebuilder:validation:Enum=immediate;ondemand
	Allocation string `json:"allocation,omitempty"`
	// allocThreads is the number of threads that allocate.
	// +kubebuilder:validation:Minimum=1
	AllocThreads *int32 `json:"allocThreads,omitempty"`
	// Limits of the whole process in KiB, memory and all that QEMU needs besides.
	// +kubebuilder:validation:Minimum=1
	HardLimitKiB *int64 `json:"hardLimitKiB,omitempty"`
	// +kubebuilder:validation:Minimum=1
	SoftLimitKiB *int64 `json:"softLimitKiB,omitempty"`
	// +kubebuilder:validation:Minimum=1
	SwapHardLimitKiB *int64 `json:"swapHardLimitKiB,omitempty"`
	// discard throws the content of the memory away when the guest ends, and does not write it to a file.
	Discard *bool `json:"discard,omitempty"`
}

// NUMAPolicy is for where the memory of guests with dedicated CPUs comes from.
type NUMAPolicy struct {
	// mode of taking memory from the cells of the guest's CPUs.
	// +kubebuilder:validation:Enum=strict;preferred;interleave
	Mode string `json:"mode,omitempty"`
	// followDevices takes CPUs from the cell of the guest's host devices first.
	FollowDevices *bool `json:"followDevices,omitempty"`
}
