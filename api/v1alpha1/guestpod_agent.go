package v1alpha1

// GuestAgent is the report of the guest agent. The report may be forged, because root in the guest can replace the agent.
type GuestAgent struct {
	// os is the guest's operating system; absent if the agent does not report it.
	OS *GuestOS `json:"os,omitempty"`
	// hostname of the guest; empty if the agent does not report it.
	// +kubebuilder:validation:MaxLength=253
	Hostname string `json:"hostname,omitempty"`
	// interfaces of the guest with the MAC address of a network card of the domain, in the agent's order. VLANs, bonds and bridges share the address.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Interfaces []GuestInterface `json:"interfaces,omitempty"`
}

// GuestOS is the operating system of a guest: the fields of status.guestOSInfo of a VirtualMachineInstance.
type GuestOS struct {
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`
	// +kubebuilder:validation:MaxLength=128
	KernelRelease string `json:"kernelRelease,omitempty"`
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// +kubebuilder:validation:MaxLength=128
	PrettyName string `json:"prettyName,omitempty"`
	// +kubebuilder:validation:MaxLength=128
	VersionID string `json:"versionId,omitempty"`
	// +kubebuilder:validation:MaxLength=128
	KernelVersion string `json:"kernelVersion,omitempty"`
	// +kubebuilder:validation:MaxLength=128
	Machine string `json:"machine,omitempty"`
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id,omitempty"`
}

// GuestInterface is a network interface of a guest.
type GuestInterface struct {
	// name in the guest, such as eth0.
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// mac is the MAC address, in lower case and with colons.
	// +kubebuilder:validation:MaxLength=17
	MAC string `json:"mac"`
	// ips are the IP addresses, without prefix and zone.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=45
	// +listType=atomic
	IPs []string `json:"ips,omitempty"`
}

// Bounds of GuestAgent, in items and characters. The markers above contain the same numbers.
const (
	MostAgentInterfaces = 32
	MostAgentIPs        = 16
	LongestAgentText    = 128
	LongestAgentName    = 64
	LongestHostname     = 253
)
