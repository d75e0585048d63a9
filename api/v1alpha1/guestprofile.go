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
	Spec              ClusterGuestProfileSpec   `json:"spec,omitempty"`
	Status            ClusterGuestProfileStatus `json:"status,omitempty,omitzero"`
}

// ClusterGuestProfileList is a list of profiles.
// +kubebuilder:object:root=true
type ClusterGuestProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterGuestProfile `json:"items"`
}

// ClusterGuestProfileSpec is a GuestProfileSpec with a selector of namespaces and a CPU that several nodes have.
type ClusterGuestProfileSpec struct {
	// namespaceSelector selects namespaces by their labels. Default: all namespaces.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// commonCPU fills domain.cpu.model and domain.cpu.features of the template with a CPU that all selected nodes offer. Kiln's controller finds the CPU by
	// the labels of the nodes, and reports it in status.commonCPU. The template must not set domain.cpu.model then.
	CommonCPU        *CommonCPU `json:"commonCPU,omitempty"`
	GuestProfileSpec `json:",inline"`
}

// CommonCPU selects the nodes whose common CPU a profile fills.
type CommonCPU struct {
	// nodeSelector selects nodes by their labels. Default: all nodes.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
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

// ClusterGuestProfileStatus is what Kiln's controller reports about a ClusterGuestProfile.
type ClusterGuestProfileStatus struct {
	GuestProfileStatus `json:",inline"`
	// commonCPU is the CPU that the nodes of spec.commonCPU have in common. New VMs are pinned to it.
	CommonCPU *CommonCPUStatus `json:"commonCPU,omitempty"`
}

// CommonCPUStatus is a CPU that several nodes have, and what limits it. If the condition CommonCPU is False, model, vendor and features are the last ones that
// the nodes had in common, and new VMs are still pinned to them.
type CommonCPUStatus struct {
	// model is the newest CPU model that all nodes offer, by a list of libvirt's models. Empty if the nodes never had one in common.
	Model string `json:"model,omitempty"`
	// vendor of the CPUs of the nodes.
	Vendor string `json:"vendor,omitempty"`
	// features are the CPU features that all nodes offer, sorted. Guests require them.
	// +listType=atomic
	Features []string `json:"features,omitempty"`
	// nodes counts the selected nodes that report their CPU.
	Nodes int32 `json:"nodes"`
	// limitedBy lists nodes without which the other nodes would have more in common, at most 8 entries. Nodes that offer the same are one entry.
	// +listType=atomic
	LimitedBy []CommonCPULimit `json:"limitedBy,omitempty"`
	// unreported counts the selected nodes that do not report their CPU. These nodes have no effect.
	Unreported int32 `json:"unreported,omitempty"`
	// unreportedNodes are the names of some of these nodes, at most 8.
	// +listType=atomic
	UnreportedNodes []string `json:"unreportedNodes,omitempty"`
}

// CommonCPULimit says what other nodes would have in common without some nodes.
type CommonCPULimit struct {
	// nodes counts the nodes that offer the same CPU.
	Nodes int32 `json:"nodes"`
	// names are the names of some of these nodes, at most 8.
	// +listType=atomic
	Names []string `json:"names"`
	// model would be the common model without these nodes. Empty if the model would stay.
	Model string `json:"model,omitempty"`
	// features counts the features that would be common as well without these nodes.
	Features int32 `json:"features,omitempty"`
	// featureNames are the names of some of these features, at most 32.
	// +listType=atomic
	FeatureNames []string `json:"featureNames,omitempty"`
}

// ConditionCommonCPU reports whether the nodes of a ClusterGuestProfile with spec.commonCPU have a CPU in common. New VMs get the last common CPU if not.
const ConditionCommonCPU = "CommonCPU"

// Reasons of ConditionCommonCPU.
const (
	// ReasonCommon means that status.commonCPU is the CPU that the nodes have in common.
	ReasonCommon = "Common"
	// ReasonGrowing means that the nodes have had more in common for some minutes. New VMs get it later, because a node that comes back may limit it again.
	ReasonGrowing = "Growing"
	// ReasonNoNodes means that no selected node reports its CPU.
	ReasonNoNodes = "NoNodes"
	// ReasonVendorsDiffer means that the CPUs of the selected nodes have several vendors.
	ReasonVendorsDiffer = "VendorsDiffer"
	// ReasonNoModel means that the selected nodes have no CPU model in common that the list of models contains.
	ReasonNoModel = "NoModel"
)

// Reasons of ConditionAccepted on GuestProfiles and ClusterGuestProfiles, besides ReasonAccepted, ReasonInvalidSelector and ReasonInvalidField.
const (
	// ReasonBaseMissing means that the profile extends a profile that does not exist.
	ReasonBaseMissing = "BaseMissing"
	// ReasonCircular means that the profile extends itself, maybe through others.
	ReasonCircular = "Circular"
	// ReasonCommonCPUMissing means that the nodes of spec.commonCPU, of the profile or of a profile that it extends, have not had a CPU in common yet.
	ReasonCommonCPUMissing = "CommonCPUMissing"
)
