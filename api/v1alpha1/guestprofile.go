package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kinds of profiles.
const (
	// KindGuestProfile is the kind of a GuestProfile.
	KindGuestProfile = "GuestProfile"
	// KindClusterGuestProfile is the kind of a ClusterGuestProfile.
	KindClusterGuestProfile = "ClusterGuestProfile"
)

// GuestProfile fills fields of the VMIs of its namespace that user, instancetype, preference and presets left unset. A VM keeps the profiles that it was
// first admitted with: an edited profile changes no VM that exists until it is repinned.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=gprof,categories=kiln
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Extends",type=string,JSONPath=`.spec.extends[*].name`
// +kubebuilder:printcolumn:name="VMs",type=integer,JSONPath=`.status.selected`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Conflicting",type=string,JSONPath=`.status.conditions[?(@.type=="Conflicting")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GuestProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GuestProfileSpec   `json:"spec,omitempty"`
	Status            GuestProfileStatus `json:"status,omitempty,omitzero"`
}

// GuestProfileList is a list of profiles.
// +kubebuilder:object:root=true
type GuestProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GuestProfile `json:"items"`
}

// ClusterGuestProfile is a GuestProfile for the VMIs of all namespaces, or of those that it selects.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cgprof,categories=kiln
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Extends",type=string,JSONPath=`.spec.extends[*].name`
// +kubebuilder:printcolumn:name="VMs",type=integer,JSONPath=`.status.selected`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Conflicting",type=string,JSONPath=`.status.conditions[?(@.type=="Conflicting")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterGuestProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterGuestProfileSpec `json:"spec,omitempty"`
	Status            GuestProfileStatus      `json:"status,omitempty,omitzero"`
}

// ClusterGuestProfileList is a list of profiles.
// +kubebuilder:object:root=true
type ClusterGuestProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterGuestProfile `json:"items"`
}

// ClusterGuestProfileSpec is a GuestProfileSpec, and the namespaces that it is for.
type ClusterGuestProfileSpec struct {
	// namespaceSelector selects namespaces by their labels. Default: all namespaces.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	GuestProfileSpec  `json:",inline"`
}

// GuestProfileSpec is what a profile fills, and in which VMIs.
type GuestProfileSpec struct {
	// selector selects VMIs by their labels. An empty selector ({}) selects all. Without one the profile selects no VMI: other profiles extend it.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// priority decides field by field: of the profiles that set a field of a VMI, the one with the highest priority counts. Two profiles of one
	// priority that differ in a field refuse the VMI. -1000000000 to 1000000000. Default: 0.
	// +kubebuilder:validation:Minimum=-1000000000
	// +kubebuilder:validation:Maximum=1000000000
	Priority int32 `json:"priority,omitempty"`
	// extends names profiles whose template is filled in where this profile's leaves a field unset. The first that sets a field counts. What they
	// select and their priority have no effect here. Profiles must not extend each other in a circle.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Extends []ProfileReference `json:"extends,omitempty"`
	// allowExclusion lets the owner of a VMI keep this profile away with the annotation
	// virtualmachineinstancepresets.admission.kubevirt.io/exclude: "true", as from presets.
	AllowExclusion bool `json:"allowExclusion,omitempty"`
	// template is what is filled.
	Template GuestProfileTemplate `json:"template,omitempty,omitzero"`
}

// ProfileReference names a profile.
type ProfileReference struct {
	// kind is GuestProfile, of the same namespace, or ClusterGuestProfile. Default: the kind of the profile that refers. A ClusterGuestProfile
	// extends none but ClusterGuestProfiles.
	// +kubebuilder:validation:Enum=GuestProfile;ClusterGuestProfile
	Kind string `json:"kind,omitempty"`
	// name of the profile.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// GuestProfileTemplate is the part of a VMI that a profile fills.
type GuestProfileTemplate struct {
	// metadata is what the VMI gets besides its own metadata.
	Metadata GuestProfileMetadata `json:"metadata,omitempty,omitzero"`
	// spec has any fields of spec of a VirtualMachineInstance ('kubectl explain vmi.spec'); none is required. Lists whose elements have names, such
	// as volumes, disks, networks and interfaces, are merged by name. Other lists are filled where the VMI has none.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec,omitempty,omitzero"`
}

// GuestProfileMetadata are the metadata that a profile fills.
type GuestProfileMetadata struct {
	// labels by key. They do not change which profiles select the VMI.
	Labels map[string]string `json:"labels,omitempty"`
	// annotations by key. Those of kilnvm.io that record what a VM was built from are refused.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// GuestProfileStatus is what Kiln's controller says of a profile.
type GuestProfileStatus struct {
	// selected counts the VMs and the VMIs without a VM that the profile selects now. Those that exist may be pinned to other profiles.
	Selected int32 `json:"selected"`
	// conditions are of type Accepted, which is False when new VMIs that the profile selects are refused, and of type Conflicting, which is
	// True when another profile of the same priority differs in a field. Both name the reason.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Reasons of ConditionAccepted on GuestProfiles and ClusterGuestProfiles, besides ReasonAccepted, ReasonInvalidSelector and ReasonInvalidField.
const (
	// ReasonBaseMissing is that of a profile that extends one which does not exist.
	ReasonBaseMissing = "BaseMissing"
	// ReasonCircular is that of a profile that extends itself, maybe through others.
	ReasonCircular = "Circular"
)
