package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// KindClusterConfiguration is the kind of a ClusterConfiguration.
const KindClusterConfiguration = "ClusterConfiguration"

// ClusterConfiguration contains the defaults of the cluster with which a VM was first admitted. A ClusterConfiguration exists only as the data of the
// ControllerRevision in Pins.Configuration. API servers do not know this kind. A VM keeps its defaults when an administrator changes the defaults of the
// cluster.
// +kubebuilder:skip
// +kubebuilder:object:generate=false
type ClusterConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterConfigurationSpec `json:"spec"`
}

// ClusterConfigurationSpec contains the defaults that stages 1 and 2 fill. If a later release adds a field, its zero value must mean the behavior before that
// release, because older revisions lack the field.
type ClusterConfigurationSpec struct {
	// Architecture of VMIs that do not set one: amd64, arm64 or s390x.
	Architecture string `json:"architecture,omitempty"`
	// Machines maps an architecture to its machine type.
	Machines map[string]string `json:"machines,omitempty"`
	// CPUModel of VMIs that do not set one.
	CPUModel string `json:"cpuModel,omitempty"`
	// CPURequest replaces an absent CPU request. Nil leaves the request absent.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// EvictionStrategy of VMIs that do not set one.
	EvictionStrategy *v1.EvictionStrategy `json:"evictionStrategy,omitempty"`
	// NetworkInterface is the binding of the default interface: bridge or masquerade.
	NetworkInterface string `json:"networkInterface,omitempty"`
	// LiveUpdate is nil when the rollout strategy is Stage.
	LiveUpdate *LiveUpdateLimits `json:"liveUpdate,omitempty"`
	// QuoteSocket is the host path of the TDX quote generation service. It is an annotation of TDX VMIs.
	QuoteSocket string `json:"quoteSocket,omitempty"`
	// EvenEmulatorThreads marks VMIs with an isolated emulator thread, because their number of CPUs must stay even. Its source is an annotation of the KubeVirt
	// object, which has an effect only while the feature gate AlignCPUs is on.
	EvenEmulatorThreads bool `json:"evenEmulatorThreads,omitempty"`
	// Frontend is the FrontendProfile that was in force, with every value. Nil means that no FrontendProfile was in force: Kiln's own values and KubeVirt's
	// smbios apply.
	Frontend *Frontend `json:"frontend,omitempty"`
}

// LiveUpdateLimits bounds the CPUs and memory that can be added to a running VMI.
type LiveUpdateLimits struct {
	// MaxCPUSockets is the largest number of sockets.
	MaxCPUSockets *uint32 `json:"maxCpuSockets,omitempty"`
	// MaxGuest is the largest memory, in bytes.
	MaxGuest *resource.Quantity `json:"maxGuest,omitempty"`
	// MaxHotplugRatio multiplies sockets and memory if no maximum is set.
	MaxHotplugRatio uint32 `json:"maxHotplugRatio,omitempty"`
}
