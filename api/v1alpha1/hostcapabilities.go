package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindHostCapabilities is the kind of a HostCapabilities.
const KindHostCapabilities = "HostCapabilities"

// HostCapabilities describes the host for which kubectl kiln renders. It exists only as the file of a --host flag. API servers do not know this kind.
// +kubebuilder:skip
// +kubebuilder:object:generate=false
type HostCapabilities struct {
	metav1.TypeMeta `json:",inline"`
	Spec            HostCapabilitiesSpec `json:"spec"`
}

// HostCapabilitiesSpec are facts of a host that rarely change. The launcher reads them from libvirt's capabilities and domain capabilities.
// +kubebuilder:object:generate=false
type HostCapabilitiesSpec struct {
	NodeName string `json:"nodeName,omitempty"`
	// Labels are the labels of the Node, by which HostProfiles select the host.
	Labels map[string]string `json:"labels,omitempty"`
	// Architecture of the host: amd64, arm64, s390x.
	Architecture string `json:"architecture"`
	// VirtTypes in order of preference: kvm, qemu.
	VirtTypes []string `json:"virtTypes"`
	// Emulators contains the path of the QEMU binary by the guest's architecture.
	Emulators map[string]string `json:"emulators"`
	// Machines contains the machine types of QEMU by the guest's architecture, each with its canonical name: q35 -> pc-q35-7.2. If it is empty, every machine type
	// is accepted.
	Machines map[string]map[string]string `json:"machines,omitempty"`
	// CPUs contains the CPU that host-model means, by the guest's architecture. Unknown for an architecture without an entry.
	CPUs map[string]ReportedCPU `json:"cpus,omitempty"`
	// Firmware is in the order of preference, which is the order of QEMU's descriptors.
	Firmware []HostFirmware `json:"firmware,omitempty"`
	// LibvirtVersion and QEMUVersion are versions such as 9.0.0. Empty means unknown, and is accepted as new enough.
	LibvirtVersion string `json:"libvirtVersion,omitempty"`
	QEMUVersion    string `json:"qemuVersion,omitempty"`
	// NUMA contains the NUMA nodes with their CPUs, for pinning. Empty if the host reports none.
	NUMA []HostNUMANode `json:"numa,omitempty"`
	// QEMU is the user as which libvirt runs QEMU; nil means unknown.
	QEMU *HostAccount `json:"qemu,omitempty"`
}

// HostAccount is a user of a host and its group, by their numeric IDs.
// +kubebuilder:object:generate=false
type HostAccount struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// HostFirmware is one firmware build of a host, as in its QEMU firmware descriptor (docs/interop/firmware.json of QEMU).
// +kubebuilder:object:generate=false
type HostFirmware struct {
	Architecture string `json:"architecture"`
	// Machines are glob patterns of machine types.
	Machines []string `json:"machines,omitempty"`
	// Features as in QEMU's descriptors: secure-boot, enrolled-keys, requires-smm, amd-sev ...
	Features []string `json:"features,omitempty"`
	// Code is the path of the executable, and VarsTemplate the path of the empty variable store. A build without VarsTemplate is stateless.
	Code         string `json:"code"`
	VarsTemplate string `json:"varsTemplate,omitempty"`
	// Format of code and vars: raw or qcow2; empty is raw. A build in format raw is preferred, and qcow2 needs libvirt 9.2.
	Format string `json:"format,omitempty"`
}

// HostNUMANode is a NUMA node of a host.
// +kubebuilder:object:generate=false
type HostNUMANode struct {
	ID        int       `json:"id"`
	MemoryKiB uint64    `json:"memoryKiB"`
	CPUs      []HostCPU `json:"cpus"`
	// Pages is the total number of huge pages by their size in KiB; unknown if empty.
	Pages map[uint64]uint64 `json:"pages,omitempty"`
	// Distances to other NUMA nodes by their ID, in the units of ACPI's SLIT; unknown if empty.
	Distances map[int]uint `json:"distances,omitempty"`
}

// HostCPU is one logical CPU of a host, as in libvirt's capabilities.
// +kubebuilder:object:generate=false
type HostCPU struct {
	ID     int `json:"id"`
	Socket int `json:"socket"`
	Die    int `json:"die,omitempty"`
	// Core is unique only within the die.
	Core int `json:"core"`
}
