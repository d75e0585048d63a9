package v1alpha1

// GuestCPU is the CPU that a guest found. With host-model, a later boot asks libvirt for exactly this CPU, and fields of spec.domain.cpu.features win over it.
// With a model, spec.domain.cpu determines the CPU, and with host-passthrough the host does.
type GuestCPU struct {
	// requested is spec.domain.cpu.model of the boot that recorded the CPU: host-model, host-passthrough or a model. The CPU is recorded anew if it changes. With
	// none, the next boot records the CPU anew.
	Requested string `json:"requested"`
	// model is libvirt's name of the CPU model, such as EPYC-Rome.
	Model string `json:"model"`
	// vendor is the vendor that libvirt demands of the host, such as AMD; empty if it demands none.
	Vendor string `json:"vendor,omitempty"`
	// features are the features that the guest has, by libvirt's names, sorted. For host-model they are all features, else those that the model may lack.
	// +listType=atomic
	Features []string `json:"features,omitempty"`
	// disabledFeatures are the features of the model that the guest lacks, sorted.
	// +listType=atomic
	DisabledFeatures []string `json:"disabledFeatures,omitempty"`
	// physicalBits is the width of physical addresses in bits; absent if it is QEMU's default for the model.
	PhysicalBits uint `json:"physicalBits,omitempty"`
	// topology is the topology with all CPUs that can be plugged in.
	Topology GuestCPUTopology `json:"topology"`
	// verified reports that libvirt ran the guest with exactly these features. Later boots then fail if libvirt would add or drop a feature.
	Verified bool `json:"verified,omitempty"`
	// firstSeen reports that the guest had booted before its CPU was recorded. At those boots it may have had another CPU.
	FirstSeen bool `json:"firstSeen,omitempty"`
}

// CPURequestedNone is the value of requested in a record whose CPU the next boot records anew. No VM requests a model of this name.
const CPURequestedNone = "none"

// GuestCPUTopology is a CPU topology.
type GuestCPUTopology struct {
	Sockets uint `json:"sockets"`
	// cores of each socket.
	Cores uint `json:"cores"`
	// threads of each core.
	Threads uint `json:"threads"`
}

// ReportedCPU is a CPU as libvirt reports it: the CPU that host-model means on a host, or the CPU of a running guest.
type ReportedCPU struct {
	// model is libvirt's name of the CPU model.
	// +kubebuilder:validation:MaxLength=64
	Model string `json:"model"`
	// +kubebuilder:validation:MaxLength=64
	Vendor string `json:"vendor,omitempty"`
	// features are all features of the CPU, sorted.
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	Features []string `json:"features,omitempty"`
	// disabledFeatures are the features of the model that the CPU lacks, sorted.
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	DisabledFeatures []string `json:"disabledFeatures,omitempty"`
}

// Bounds of ReportedCPU and GuestCPU, in items and characters. The markers above contain the same numbers.
const (
	MostCPUFeatures = 1024
	LongestCPUName  = 64
)
