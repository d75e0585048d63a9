package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindFrontendProfile is the kind of a FrontendProfile.
const KindFrontendProfile = "FrontendProfile"

// FrontendProfile is one version of the hardware that guests see and that no field of a VirtualMachineInstance sets. Its name is its version: v1, v2, and so
// on. The highest version is in force: new VMs are pinned to it, with the configuration of the cluster. An existing VM keeps the version to which it is pinned,
// and a guest that has booted keeps its hardware record.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=fp,categories=kiln
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="In Force",type=string,JSONPath=`.status.conditions[?(@.type=="InForce")].status`
// +kubebuilder:printcolumn:name="Free Ports",type=integer,JSONPath=`.spec.freePorts`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^v[1-9][0-9]{0,8}$')",message="metadata.name must be v1 to v999999999"
type FrontendProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec cannot be changed: a version always means the same hardware. Create the next version instead.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a FrontendProfile cannot be changed; create one with the next version"
	Spec   FrontendProfileSpec   `json:"spec"`
	Status FrontendProfileStatus `json:"status,omitempty,omitzero"`
}

// FrontendProfileStatus is what Kiln's controller reports about a profile.
type FrontendProfileStatus struct {
	// conditions are of type InForce.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionInForce reports whether new VMs get this version of the FrontendProfile.
const ConditionInForce = "InForce"

// Reasons of ConditionInForce.
const (
	// ReasonHighestVersion means that the version is in force.
	ReasonHighestVersion = "HighestVersion"
	// ReasonNewerVersion means that a higher version is in force.
	ReasonNewerVersion = "NewerVersion"
	// ReasonInvalid means that a field of the version cannot be used. Such a version is never in force.
	ReasonInvalid = "Invalid"
)

// FrontendProfileList is a list of profiles.
// +kubebuilder:object:root=true
type FrontendProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FrontendProfile `json:"items"`
}

// FrontendProfileSpec is hardware that guests see. Values that a profile leaves out come from KubeVirt's smbios (spec.configuration.smbios), otherwise from
// Kiln's own values.
type FrontendProfileSpec struct {
	// smbios are system strings of the guest's DMI table. Domain: sysinfo/system. s390x machines lack such a table.
	SMBIOS *FrontendSMBIOS `json:"smbios,omitempty"`
	// video is the model of the video adapter of VMIs without devices.video.type. Domain: devices/video. On s390x it is always virtio.
	Video *FrontendVideo `json:"video,omitempty"`
	// freePorts is the number of PCIe root ports without a device, into which devices can be plugged later. It is smaller for VMIs with so many devices that the
	// root bus is full. s390x machines lack root ports. 0 to 128. Default: 8.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=128
	FreePorts *int32 `json:"freePorts,omitempty"`
	// usb is the USB controllers. s390x machines lack USB.
	USB *FrontendUSB `json:"usb,omitempty"`
	// balloon is the memory balloon. devices.autoattachMemBalloon decides whether a VMI gets one.
	Balloon *FrontendBalloon `json:"balloon,omitempty"`
	// generationID adds the VM Generation ID device to guests on amd64. With this device guests detect that they were restored or cloned. Default: true.
	GenerationID *bool `json:"generationID,omitempty"`
}

// FrontendSMBIOS are DMI strings: printable characters of ASCII, at most 64 as SMBIOS before 2.7 requires, without a space at either end.
type FrontendSMBIOS struct {
	// manufacturer of the system. Default: KubeVirt.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
	Manufacturer string `json:"manufacturer,omitempty"`
	// product is the name of the product. Default: None.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
	Product string `json:"product,omitempty"`
	// version of the product. Default: none. QEMU then writes the machine type.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
	Version string `json:"version,omitempty"`
	// sku is the stock keeping unit. Default: none.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
	SKU string `json:"sku,omitempty"`
	// family of products. Default: KubeVirt.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
	Family string `json:"family,omitempty"`
}

// FrontendVideo contains the video models by architecture.
type FrontendVideo struct {
	// amd64 is the model for VMIs on amd64 that boot by BIOS. Default: vga.
	// +kubebuilder:validation:Enum=bochs;cirrus;ramfb;vga;virtio
	AMD64 string `json:"amd64,omitempty"`
	// amd64EFI is the model for VMIs on amd64 that boot by EFI. Default: bochs.
	// +kubebuilder:validation:Enum=bochs;cirrus;ramfb;vga;virtio
	AMD64EFI string `json:"amd64EFI,omitempty"`
	// arm64 is the model for VMIs on arm64. Default: virtio.
	// +kubebuilder:validation:Enum=ramfb;virtio
	ARM64 string `json:"arm64,omitempty"`
}

// FrontendUSB is for the USB controllers. A VMI gets one controller for each 15 USB devices.
type FrontendUSB struct {
	// model of the controllers: qemu-xhci, or nec-xhci for guests that have only a driver for NEC's controllers. Domain: devices/controller.
	// Default: qemu-xhci.
	// +kubebuilder:validation:Enum=qemu-xhci;nec-xhci
	Model string `json:"model,omitempty"`
}

// FrontendBalloon is for the memory balloon.
type FrontendBalloon struct {
	// deflateOnOOM lets the guest take memory back from the balloon before it kills a process for lack of memory. Domain:
	// devices/memballoon. Default: false.
	DeflateOnOOM *bool `json:"deflateOnOOM,omitempty"`
}

// Frontend is a FrontendProfile with every value, including the values that the profile leaves out. It is part of the configuration to which a VM is pinned.
type Frontend struct {
	// version is the name of the FrontendProfile.
	// +kubebuilder:validation:Pattern=`^v[1-9][0-9]{0,8}$`
	Version             string `json:"version"`
	FrontendProfileSpec `json:",inline"`
}
