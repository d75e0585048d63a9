package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostProfile is an administrator's policy for how hosts run guests. It says what guests do not see: caches, limits, pinning,
// placement. What the owner of a VM has written in the VM wins over it, and it never changes a guest's hardware.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=hp,categories=kiln
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type HostProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              HostProfileSpec   `json:"spec,omitempty"`
	Status            HostProfileStatus `json:"status,omitempty"`
}

// HostProfileStatus is what Kiln's controller says of a profile.
type HostProfileStatus struct {
	// conditions are of type Accepted: False when no host takes notice of the profile, with the reason.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionAccepted reports whether hosts apply a profile.
const ConditionAccepted = "Accepted"

// Reasons of ConditionAccepted.
const (
	// ReasonAccepted is that of a profile that can be read.
	ReasonAccepted = "Accepted"
	// ReasonInvalidSelector is that of a profile of which nobody can tell whom it is for: hosts leave it out.
	ReasonInvalidSelector = "InvalidSelector"
)

// HostProfileList is a list of profiles.
// +kubebuilder:object:root=true
type HostProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostProfile `json:"items"`
}

// HostProfileSpec says for which guests on which hosts the policy is, and which of several counts.
type HostProfileSpec struct {
	// vmSelector selects VirtualMachineInstances by their labels; absent selects all. The owner of a VM chooses its labels.
	VMSelector *metav1.LabelSelector `json:"vmSelector,omitempty"`
	// nodeSelector selects hosts by their labels; absent selects all.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// priority decides field by field: of the profiles that set one, that of the highest priority counts. Two of one priority must
	// not differ.
	Priority   int32 `json:"priority,omitempty"`
	HostPolicy `json:",inline"`
}

// HostPolicy is what profiles are merged into. What is absent is left to Kiln, libvirt and QEMU.
type HostPolicy struct {
	Disk          *DiskPolicy      `json:"disk,omitempty"`
	DiskLimits    *DiskLimits      `json:"diskLimits,omitempty"`
	BlockIO       *BlockIOPolicy   `json:"blkio,omitempty"`
	IOThreads     *IOThreadsPolicy `json:"ioThreads,omitempty"`
	CPU           *CPUPolicy       `json:"cpu,omitempty"`
	Cache         *CachePolicy     `json:"cache,omitempty"`
	Memory        *MemoryPolicy    `json:"memory,omitempty"`
	NUMA          *NUMAPolicy      `json:"numa,omitempty"`
	Net           *NetPolicy       `json:"net,omitempty"`
	Balloon       *BalloonPolicy   `json:"balloon,omitempty"`
	RNG           *RNGPolicy       `json:"rng,omitempty"`
	Graphics      *GraphicsPolicy  `json:"graphics,omitempty"`
	SerialLog     *SerialLogPolicy `json:"serialLog,omitempty"`
	Security      *SecurityPolicy  `json:"security,omitempty"`
	PathTemplates *PathTemplates   `json:"pathTemplates,omitempty"`
	Lifecycle     *LifecyclePolicy `json:"lifecycle,omitempty"`
}
