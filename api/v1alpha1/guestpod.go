package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// GuestPod is the object by which Kiln's controller and the launcher in the pod of a VirtualMachineInstance communicate. Its name is the name of the VMI. The
// controller writes the spec, and makes a new object for each pod. The launcher of the pod writes only the status. A user who may exec into a pod, or make
// tokens of its service account, can act as its launcher, so the controller reads the status as hostile input.
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

// GuestPodSpec contains the facts that the launcher needs from the controller.
type GuestPodSpec struct {
	// vmiUID is the UID of the VirtualMachineInstance.
	VMIUID types.UID `json:"vmiUID"`
	// podUID is the UID of the pod. Only the launcher in this pod may write the status.
	PodUID types.UID `json:"podUID"`
	// clusterUID is the UID of the namespace kube-system, by which domains name their cluster.
	ClusterUID types.UID `json:"clusterUID"`
	// nodeName is the node to which the pod is bound.
	NodeName string `json:"nodeName"`
	// hostPolicy is the merged policy of the HostProfiles that select the VMI and the node. Absent without such a HostProfile.
	HostPolicy *HostPolicy `json:"hostPolicy,omitempty"`
	// hardware is absent until the launcher has reported status.facts. The launcher starts the domain only after that.
	Hardware *GuestPodHardware `json:"hardware,omitempty"`
	// clients are the clients that may use console, display and actions of the launcher; absent if no API server of subresources is installed.
	Clients *GuestPodClients `json:"clients,omitempty"`
	// live is the hardware that the running guest should have, by the spec of the VMI and the resources of its pod. Absent until the first change of a running
	// guest.
	Live *GuestPodLive `json:"live,omitempty"`
}

// GuestPodLive is the hardware that a running guest should have.
type GuestPodLive struct {
	LiveHardware `json:",inline"`
	// vmiGeneration is the generation of the VMI whose requests are all included; 0 while a request of the VMI waits for the pod.
	VMIGeneration int64 `json:"vmiGeneration,omitempty"`
}

// GuestPodClients are the clients of a launcher. A client shows a certificate of one of the authorities with the DNS name.
type GuestPodClients struct {
	// authorities are certificates, PEM.
	// +kubebuilder:validation:MaxLength=65536
	Authorities string `json:"authorities"`
	// name is a DNS name.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// LauncherPort is the TCP port at which the launcher in a pod answers its clients. It is one of the ephemeral ports. If an interface lists no ports, passt does
// not forward ephemeral ports to its guest.
const LauncherPort = 48186

// GuestPodHardware is the hardware that the guest sees in this start. Kiln records it in the GuestHardware with the name of the VMI.
type GuestPodHardware struct {
	// frontend is the hardware that the guest sees, as a partial libvirt domain.
	// +kubebuilder:validation:MaxLength=1048576
	Frontend string `json:"frontend"`
	// digest is the digest of the hardware record.
	Digest string `json:"digest"`
	// vmiGeneration is the generation of the VMI from which the hardware was made; 0 if the guest ran before.
	VMIGeneration int64 `json:"vmiGeneration,omitempty"`
}

// GuestPodStatus is the report of the launcher. All of it may be forged.
type GuestPodStatus struct {
	// facts are the facts about its host that the guest sees at its first boot.
	Facts *GuestFacts `json:"facts,omitempty"`
	// domain is the state of the guest's domain; absent before its first start.
	Domain *GuestDomain `json:"domain,omitempty"`
	// refusal is why the launcher cannot start the domain; absent if it can.
	Refusal *GuestRefusal `json:"refusal,omitempty"`
	// agent is the report of the guest agent; absent while the agent does not answer.
	Agent *GuestAgent `json:"agent,omitempty"`
	// serverCertificate is the digest of the certificate of the launcher's server at port 48186: 'sha256:' and hexadecimal digits. Absent while the launcher runs
	// no server.
	// +kubebuilder:validation:MaxLength=71
	ServerCertificate string `json:"serverCertificate,omitempty"`
	// running is the hardware that libvirt runs; absent while the domain is not active.
	Running *ReportedHardware `json:"running,omitempty"`
	// credentials is the result of the last attempt to give accessCredentials to the guest agent; absent before the first attempt, and if the VMI gives it none.
	Credentials *GuestCredentials `json:"credentials,omitempty"`
}

// GuestCredentials is the result of an attempt to give accessCredentials to the guest agent.
type GuestCredentials struct {
	// failure is why keys or passwords have not reached users of the guest; empty if all have.
	// +kubebuilder:validation:MaxLength=2048
	Failure string `json:"failure,omitempty"`
}

// LongestCredentialFailure is the bound of GuestCredentials.failure in characters. The marker above contains the same number.
const LongestCredentialFailure = 2048

// GuestFacts are the facts about its host that the guest sees at its first boot. They are recorded, because later boots must find them again.
type GuestFacts struct {
	// machine is the machine type of QEMU for spec.domain.machine.type of the VMI: pc-q35-10.0 for q35. Empty if QEMU does not offer the type.
	// +kubebuilder:validation:MaxLength=64
	Machine string `json:"machine,omitempty"`
	// firmware are the file names of the builds of EFI firmware with which this host can start the VMI, the preferred one first; empty without EFI.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	Firmware []string `json:"firmware,omitempty"`
	// hostDevices is the kind of each host device and GPU by its name: pci, mdev, usb, ap or ccw.
	// +kubebuilder:validation:MaxProperties=256
	HostDevices map[string]string `json:"hostDevices,omitempty"`
	// usbDevices is the number of USB devices of a host device or GPU by its name, if it is more than one.
	// +kubebuilder:validation:MaxProperties=256
	USBDevices map[string]int32 `json:"usbDevices,omitempty"`
	// hostDeviceNUMANodes is the NUMA node of each host device by its name, if the host reports it.
	// +kubebuilder:validation:MaxProperties=256
	HostDeviceNUMANodes map[string]int32 `json:"hostDeviceNUMANodes,omitempty"`
	// blockSizes are the block sizes of volumes by the names of the volumes, for disks with blockSize.matchVolume.
	// +kubebuilder:validation:MaxProperties=1024
	BlockSizes map[string]ReportedBlockSize `json:"blockSizes,omitempty"`
	// cpu is the CPU that host-model means on this host for the VMI's architecture; absent if libvirt has none.
	CPU *ReportedCPU `json:"cpu,omitempty"`
	// numa are the NUMA nodes of the host with CPUs for this VMI, in the host's order.
	// +kubebuilder:validation:MaxItems=128
	NUMA []ReportedNUMANode `json:"numa,omitempty"`
}

// MostFirmwareBuilds bounds GuestFacts.firmware. The marker above contains the same number.
const MostFirmwareBuilds = 32

// ReportedBlockSize contains the block sizes of a volume in bytes.
type ReportedBlockSize struct {
	Logical  int32 `json:"logical"`
	Physical int32 `json:"physical"`
	// discardGranularity is absent if the host does not report it, or if its libvirt cannot show it to a guest.
	DiscardGranularity *int32 `json:"discardGranularity,omitempty"`
}

// ReportedNUMANode is a NUMA node of the host.
type ReportedNUMANode struct {
	ID int32 `json:"id"`
	// cpus is the number of the node's logical CPUs that the VMI may use.
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
	// reason is why the domain does not run, or is paused: a reason of the conditions Ready and Paused. Empty for a running domain.
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
	// reason is a reason of the condition Synchronized.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// +kubebuilder:validation:MaxLength=16384
	Message string `json:"message,omitempty"`
}

// GuestPodList is a list of GuestPods.
// +kubebuilder:object:root=true
type GuestPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GuestPod `json:"items"`
}
