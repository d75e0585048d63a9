package v1alpha1

// LiveHardware is the part of a guest's hardware that may change while the guest runs. The other hardware is in spec.hardware of its GuestPod. Lists are
// sorted, and contain each device once.
type LiveHardware struct {
	// vcpus is the number of vCPUs.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	VCPUs int32 `json:"vcpus"`
	// memoryKiB is the memory in KiB, with what was plugged in.
	// +kubebuilder:validation:Minimum=1
	MemoryKiB int64 `json:"memoryKiB"`
	// absent are the disks and interfaces that were taken from the guest, by their keys in the hardware record, such as interface.blue.
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=128
	// +listType=atomic
	Absent []string `json:"absent,omitempty"`
	// linksDown are the names of the interfaces whose links are down.
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=128
	// +listType=atomic
	LinksDown []string `json:"linksDown,omitempty"`
	// ejected are the names of the CD-ROM drives without a medium.
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=128
	// +listType=atomic
	Ejected []string `json:"ejected,omitempty"`
}

// Bounds of LiveHardware, in items and characters. The markers above contain the same numbers.
const (
	MostLiveDevices   = 1024
	LongestLiveDevice = 128
	MostLiveVCPUs     = 4096
)

// ReportedHardware is the hardware that libvirt runs, as the launcher reads it from libvirt.
type ReportedHardware struct {
	LiveHardware `json:",inline"`
	// hindrance is why libvirt or the guest did not make the last requested change; empty if the change was made, or has not been answered yet.
	// +kubebuilder:validation:MaxLength=1024
	Hindrance string `json:"hindrance,omitempty"`
	// cpu is the CPU that libvirt runs; absent if libvirt has no model for it, as for host-passthrough.
	CPU *ReportedCPU `json:"cpu,omitempty"`
}
