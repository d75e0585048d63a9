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

// GuestProfile fills fields of the VMIs of its namespace that user, instancetype, preference and presets left unset. A VM keeps the profiles with which it was
// first admitted: an edited profile does not change existing VMs until they are repinned.
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

// ClusterGuestProfile is a GuestProfile for the VMIs of all namespaces, or of the namespaces that it selects.
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

// ClusterGuestProfileSpec is a GuestProfileSpec with a selector of namespaces.
type ClusterGuestProfileSpec struct {
	// namespaceSelector selects namespaces by their labels. Default: all namespaces.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	GuestProfileSpec  `json:",inline"`
}

// GuestProfileSpec contains the fields that a profile fills, and the VMIs that it selects.
type GuestProfileSpec struct {
	// selector selects VMIs by their labels. An empty selector ({}) selects all. Without a selector the profile does not select VMIs, but other profiles may
	// extend it.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// priority decides field by field: of the profiles that set a field of a VMI, the profile with the highest priority wins. If two profiles of one
	// priority differ in a field, the VMI is refused. -1000000000 to 1000000000. Default: 0.
	// +kubebuilder:validation:Minimum=-1000000000
	// +kubebuilder:validation:Maximum=1000000000
	Priority int32 `json:"priority,omitempty"`
	// extends lists profiles whose templates fill the fields that this profile's template leaves unset. The first profile that sets a field wins. The selectors
	// and priorities of these profiles have no effect. Profiles must not extend each other in a circle.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Extends []ProfileReference `json:"extends,omitempty"`
	// allowExclusion lets the owner of a VMI exclude it from this profile with the annotation
	// virtualmachineinstancepresets.admission.kubevirt.io/exclude: "true", as from presets.
	AllowExclusion bool `json:"allowExclusion,omitempty"`
	// template contains the fields that the profile fills.
	Template GuestProfileTemplate `json:"template,omitempty,omitzero"`
}

// ProfileReference refers to a profile.
type ProfileReference struct {
	// kind is GuestProfile, of the same namespace, or ClusterGuestProfile. Default: the kind of the profile with this reference. A ClusterGuestProfile
	// extends only ClusterGuestProfiles.
	// +kubebuilder:validation:Enum=GuestProfile;ClusterGuestProfile
	Kind string `json:"kind,omitempty"`
	// name of the profile.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// GuestProfileTemplate is the part of a VMI that a profile fills.
type GuestProfileTemplate struct {
	// metadata is added to the VMI's own metadata.
	Metadata GuestProfileMetadata `json:"metadata,omitempty,omitzero"`
	// spec contains any fields of spec of a VirtualMachineInstance ('kubectl explain vmi.spec'). Fields are not required. Lists of named elements, such as
	// volumes, disks, networks and interfaces, are merged by name. Other lists are filled if the VMI does not set them.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec,omitempty,omitzero"`
}

// GuestProfileMetadata are the metadata that a profile fills.
type GuestProfileMetadata struct {
	// labels by key. They do not change which profiles select the VMI.
	Labels map[string]string `json:"labels,omitempty"`
	// annotations by key. The annotations of kilnvm.io that record the objects from which a VM was built are refused.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// GuestProfileStatus is what Kiln's controller reports about a profile.
type GuestProfileStatus struct {
	// selected counts the VMs and the VMIs without a VM that the profile selects now. They may be pinned to other profiles.
	Selected int32 `json:"selected"`
	// conditions are of type Accepted, which is False if new VMIs that the profile selects are refused, and of type Conflicting, which is True if another profile
	// of the same priority differs in a field. Both contain the reason.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Reasons of ConditionAccepted on GuestProfiles and ClusterGuestProfiles, besides ReasonAccepted, ReasonInvalidSelector and ReasonInvalidField.
const (
	// ReasonBaseMissing means that the profile extends a profile that does not exist.
	ReasonBaseMissing = "BaseMissing"
	// ReasonCircular means that the profile extends itself, maybe through others.
	ReasonCircular = "Circular"
)
