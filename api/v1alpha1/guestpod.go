package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// GuestPod is what Kiln's controller and the launcher in the pod of a VirtualMachineInstance tell each other. It has the name of the VMI. The controller
// writes the spec, and makes the object anew for each pod. The launcher of that pod writes the status, and writes no other object: whoever may exec into
// a pod, or make tokens of its service account, speaks as its launcher, so the controller reads the status as hostile input.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=guestpods,singular=guestpod,shortName=gp,categories=kiln
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.domain.state`
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.status.domain.machine`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GuestPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GuestPodSpec   `json:"spec"`
	Status            GuestPodStatus `json:"status,omitempty,omitzero"`
}

// GuestPodSpec is what the launcher needs and only the controller knows.
type GuestPodSpec struct {
	// vmiUID is the UID of the VirtualMachineInstance.
	VMIUID types.UID `json:"vmiUID"`
	// podUID is the UID of the pod. Its launcher alone may write the status.
	PodUID types.UID `json:"podUID"`
	// clusterUID is the UID of namespace kube-system, by which domains name their cluster.
	ClusterUID types.UID `json:"clusterUID"`
	// nodeName is the node that the pod is bound to.
	NodeName string `json:"nodeName"`
	// hostPolicy is what the HostProfiles that select the VMI and the node are merged into. Absent without one.
	HostPolicy *HostPolicy `json:"hostPolicy,omitempty"`
	// hardware is absent until the launcher has reported status.facts. The launcher starts no domain before.
	Hardware *GuestPodHardware `json:"hardware,omitempty"`
	// clients are whom the launcher serves console, display and actions; absent where no API server of subresources is installed.
	Clients *GuestPodClients `json:"clients,omitempty"`
	// live is what the guest is to have by now, by the spec of the VMI and what its pod was given. Absent until the first change of a guest that runs.
	Live *GuestPodLive `json:"live,omitempty"`
}

// GuestPodLive is what a guest that runs is to have.
type GuestPodLive struct {
	LiveHardware `json:",inline"`
	// vmiGeneration is the generation of the VMI that this is all of; 0 while something that the VMI asks for waits for the pod.
	VMIGeneration int64 `json:"vmiGeneration,omitempty"`
}

// GuestPodClients are the clients of a launcher: those with a certificate of one of the authorities, and with the DNS name.
type GuestPodClients struct {
	// authorities are certificates, PEM.
	// +kubebuilder:validation:MaxLength=65536
	Authorities string `json:"authorities"`
	// name is a DNS name.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// LauncherPort is the TCP port at which the launcher in a pod serves its clients. It is one of the ephemeral ports, none of which passt forwards to a guest
// whose interface names no ports.
const LauncherPort = 48186

// GuestPodHardware is the hardware that the guest of this start sees. It is on record in the GuestHardware of the name.
type GuestPodHardware struct {
	// frontend is all that the guest sees, as a partial libvirt domain.
	// +kubebuilder:validation:MaxLength=1048576
	Frontend string `json:"frontend"`
	// digest is that of the record.
	Digest string `json:"digest"`
	// vmiGeneration is the generation of the VMI that it was made of; 0 if the guest ran before.
	VMIGeneration int64 `json:"vmiGeneration,omitempty"`
}

// GuestPodStatus is what the launcher reports. All of it may be forged.
type GuestPodStatus struct {
	// facts are what the guest sees of its host at its first boot.
	Facts *GuestFacts `json:"facts,omitempty"`
	// domain is the state of the guest's domain; absent before its first start.
	Domain *GuestDomain `json:"domain,omitempty"`
	// refusal is why the launcher cannot start the domain; absent if nothing keeps it from that.
	Refusal *GuestRefusal `json:"refusal,omitempty"`
	// agent is what the guest agent says; absent while it does not answer.
	Agent *GuestAgent `json:"agent,omitempty"`
	// serverCertificate is the digest of the certificate that the launcher serves with at port 48186: 'sha256:' and hexadecimal digits. Absent while the
	// launcher serves nobody.
	// +kubebuilder:validation:MaxLength=71
	ServerCertificate string `json:"serverCertificate,omitempty"`
	// running is what libvirt runs; absent while the domain is not active.
	Running *ReportedHardware `json:"running,omitempty"`
}

// GuestFacts are what the guest sees of the host of its first boot. They are recorded then; later boots find them again.
type GuestFacts struct {
	// machine is the machine type of QEMU that spec.domain.machine.type of the VMI stands for: pc-q35-10.0 for q35. Empty if QEMU does not offer it.
	// +kubebuilder:validation:MaxLength=64
	Machine string `json:"machine,omitempty"`
	// hostDevices is the kind of each host device and GPU by its name: pci, mdev, usb, ap or ccw.
	// +kubebuilder:validation:MaxProperties=256
	HostDevices map[string]string `json:"hostDevices,omitempty"`
	// usbDevices is the number of USB devices of a host device or GPU by its name, where it is more than one.
	// +kubebuilder:validation:MaxProperties=256
	USBDevices map[string]int32 `json:"usbDevices,omitempty"`
	// hostDeviceNUMANodes is the NUMA node of each host device by its name, where the host reports it.
	// +kubebuilder:validation:MaxProperties=256
	HostDeviceNUMANodes map[string]int32 `json:"hostDeviceNUMANodes,omitempty"`
	// blockSizes are those of volumes by their names, for disks with blockSize.matchVolume.
	// +kubebuilder:validation:MaxProperties=1024
	BlockSizes map[string]ReportedBlockSize `json:"blockSizes,omitempty"`
	// numa are the NUMA nodes of the host that have CPUs for this VMI, in the host's order.
	// +kubebuilder:validation:MaxItems=128
	NUMA []ReportedNUMANode `json:"numa,omitempty"`
}

// ReportedBlockSize has the block sizes of a volume in bytes.
type ReportedBlockSize struct {
	Logical  int32 `json:"logical"`
	Physical int32 `json:"physical"`
	// discardGranularity is absent where the host does not report it, or its libvirt cannot show it to a guest.
	DiscardGranularity *int32 `json:"discardGranularity,omitempty"`
}

// ReportedNUMANode is a NUMA node of the host.
type ReportedNUMANode struct {
	ID int32 `json:"id"`
	// cpus is the number of its logical CPUs that the VMI may have.
	CPUs int32 `json:"cpus"`
	// distances to other NUMA nodes, in the units of ACPI's SLIT; empty if the host reports none.
	// +kubebuilder:validation:MaxItems=128
	Distances []ReportedNUMADistance `json:"distances,omitempty"`
}

// ReportedNUMADistance is the distance to a NUMA node.
type ReportedNUMADistance struct {
	Node     int32 `json:"node"`
	Distance int32 `json:"distance"`
}

// GuestDomainState is the state of a guest's domain.
// +kubebuilder:validation:Enum=Running;Paused;PoweredOff;Destroyed;Failed
type GuestDomainState string

// States of a guest's domain. The last three are final: the pod ends.
const (
	// GuestRunning is a domain that runs.
	GuestRunning GuestDomainState = "Running"
	// GuestPaused is a domain that executes nothing.
	GuestPaused GuestDomainState = "Paused"
	// GuestPoweredOff is a domain whose guest powered off.
	GuestPoweredOff GuestDomainState = "PoweredOff"
	// GuestDestroyed is a domain that was ended from outside: by the launcher for the VMI's owner, or by hand.
	GuestDestroyed GuestDomainState = "Destroyed"
	// GuestFailed is a domain that ended in any other way.
	GuestFailed GuestDomainState = "Failed"
)

// GuestDomain is the state of a guest's domain, as libvirt reports it.
type GuestDomain struct {
	State GuestDomainState `json:"state"`
	// reason is why the domain does not run, or is paused: a reason of conditions Ready and Paused. Empty for one that runs.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// machine is the machine type of an active domain.
	// +kubebuilder:validation:MaxLength=64
	Machine string `json:"machine,omitempty"`
}

// GuestRefusal is why a domain is not started. The launcher tries again.
type GuestRefusal struct {
	// reason is one of condition Synchronized.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// +kubebuilder:validation:MaxLength=16384
	Message string `json:"message,omitempty"`
}

// GuestPodList is a list of them.
// +kubebuilder:object:root=true
type GuestPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GuestPod `json:"items"`
}
