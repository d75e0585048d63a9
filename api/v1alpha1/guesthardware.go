package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// GuestHardware is the hardware that a guest finds again at each boot. Its name is the name of the guest's VirtualMachine, or of a VirtualMachineInstance
// without a VirtualMachine. Kiln makes a GuestHardware at the first boot and removes it with the guest. A GuestHardware lacks an owner reference, because a VM
// that is restored from a backup gets another UID, and the garbage collector would remove objects that refer to the old UID.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=guesthardwares,singular=guesthardware,shortName=gh,categories=kiln
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.hardware.machine`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.guest.nodeName`
// +kubebuilder:printcolumn:name="CPU Offered",type=string,JSONPath=`.status.conditions[?(@.type=="CPUOffered")].status`
// +kubebuilder:printcolumn:name="Boots",type=integer,JSONPath=`.status.boots`
// +kubebuilder:printcolumn:name="Last Boot",type=date,JSONPath=`.status.lastBoot.time`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GuestHardware struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GuestHardwareSpec   `json:"spec,omitempty"`
	Status            GuestHardwareStatus `json:"status,omitempty,omitzero"`
}

// GuestHardwareSpec is the part that backups must include.
type GuestHardwareSpec struct {
	// identity is the seed of the guest: annotation kilnvm.io/identity of its VM. A VM that was restored boots with this hardware if its seed is the same. Empty
	// means any guest with the name.
	// +kubebuilder:validation:MaxLength=262144
	Identity string `json:"identity,omitempty"`
	// hardware is absent until the first boot.
	Hardware *HardwareRecord `json:"hardware,omitempty"`
}

// GuestHardwareStatus contains the observations of Kiln. The status of a restored object is empty until its guest starts.
type GuestHardwareStatus struct {
	// virtualMachineUID is the UID of the VM with this hardware; empty for a VirtualMachineInstance without a VM.
	VirtualMachineUID types.UID `json:"virtualMachineUID,omitempty"`
	// guest is the VirtualMachineInstance that starts or runs with the hardware, or has run last.
	Guest *HardwareUser `json:"guest,omitempty"`
	// boots counts the guests that have run with the hardware.
	Boots int64 `json:"boots,omitempty"`
	// lastBoot is the last guest that has run.
	LastBoot *HardwareBoot `json:"lastBoot,omitempty"`
	// running is the hardware that libvirt runs, as the guest's launcher reports it. Absent while no guest runs.
	Running *HardwareRunning `json:"running,omitempty"`
	// conditions are of type CPUOffered, which is False if no node offers the recorded CPU: the guest cannot start again. Type CPUFirstSeen is True if the guest
	// had booted before its CPU was recorded.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HardwareUser is a guest and its node. The launcher of the node writes the hardware before it starts the guest.
type HardwareUser struct {
	// uid of the VirtualMachineInstance.
	UID      types.UID `json:"uid"`
	NodeName string    `json:"nodeName"`
	// frontend is the hardware that no field of the VMI sets, from the FrontendProfile to which the VMI is pinned. Absent without a FrontendProfile. Values in
	// spec.hardware win over it.
	Frontend *Frontend `json:"frontend,omitempty"`
}

// HardwareBoot is a guest that has run.
type HardwareBoot struct {
	// uid of the VirtualMachineInstance.
	UID types.UID `json:"uid"`
	// digest of the hardware that the guest found.
	Digest string `json:"digest,omitempty"`
	// time at which Kiln's controller first saw the guest run.
	Time metav1.Time `json:"time"`
}

// HardwareRunning is the hardware of a guest that runs.
type HardwareRunning struct {
	LiveHardware `json:",inline"`
	// uid of the VirtualMachineInstance.
	UID types.UID `json:"uid"`
	// digest is the digest of all hardware that the guest sees now. It equals the digest of the hardware record until something changes after the boot.
	Digest string `json:"digest"`
	// cpu is the CPU that libvirt runs; absent if libvirt has no model for it, as for host-passthrough, and if no record is compared with it.
	CPU *ReportedCPU `json:"cpu,omitempty"`
	// cause is the last change.
	// +kubebuilder:validation:MaxLength=1024
	Cause string `json:"cause"`
	// time at which Kiln's controller, or the launcher of a bare machine, saw the change.
	Time metav1.Time `json:"time"`
}

// GuestHardwareList is a list of GuestHardwares.
// +kubebuilder:object:root=true
type GuestHardwareList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GuestHardware `json:"items"`
}
