package v1alpha1

// NetPolicy is for the host's side of interfaces.
type NetPolicy struct {
	// vhost has the kernel serve virtio interfaces (true) or QEMU (false).
	VHost    *bool          `json:"vhost,omitempty"`
	Inbound  *BandwidthRate `json:"inbound,omitempty"`
	Outbound *BandwidthRate `json:"outbound,omitempty"`
	// filterRef is a network filter that libvirt has on the host, such as clean-traffic.
	FilterRef string `json:"filterRef,omitempty"`
	// trustRx lets the guest change the host's filters of received packets.
	TrustRx *bool `json:"trustRx,omitempty"`
	// coalesceFrames is how many received frames one interrupt is for.
	// +kubebuilder:validation:Minimum=1
	CoalesceFrames *int32 `json:"coalesceFrames,omitempty"`
	// isolated guests do not reach others on their bridge that are isolated too.
	Isolated *bool `json:"isolated,omitempty"`
}

// BandwidthRate limits one direction.
type BandwidthRate struct {
	// +kubebuilder:validation:Minimum=1
	AverageKBps *int32 `json:"averageKBps,omitempty"`
	// +kubebuilder:validation:Minimum=1
	PeakKBps *int32 `json:"peakKBps,omitempty"`
	// burstKB is what passes at peak rate.
	// +kubebuilder:validation:Minimum=1
	BurstKB *int32 `json:"burstKB,omitempty"`
}

// BalloonPolicy is for memory statistics.
type BalloonPolicy struct {
	// statsPeriodSec is how often the guest is asked, in seconds; 0 never.
	// +kubebuilder:validation:Minimum=0
	StatsPeriodSec *int32 `json:"statsPeriodSec,omitempty"`
}

// RNGPolicy is for random number generators.
type RNGPolicy struct {
	// source is a device of the host.
	// +kubebuilder:validation:Enum=/dev/urandom;/dev/random;/dev/hwrng
	Source string `json:"source,omitempty"`
	// rateBytes is how much the guest gets in a period, in bytes.
	// +kubebuilder:validation:Minimum=1
	RateBytes *int32 `json:"rateBytes,omitempty"`
	// ratePeriodMs is the period in milliseconds, 1000 if absent.
	// +kubebuilder:validation:Minimum=1
	RatePeriodMs *int32 `json:"ratePeriodMs,omitempty"`
}

// GraphicsPolicy is for VNC.
type GraphicsPolicy struct {
	// listen is 'socket', or the IP address of the host to listen on.
	Listen string `json:"listen,omitempty"`
}

// SerialLogPolicy keeps what guests write to their serial console.
type SerialLogPolicy struct {
	// dir is the folder; the file is NAMESPACE_NAME.log.
	// +kubebuilder:validation:Pattern=`^/`
	Dir string `json:"dir,omitempty"`
	// append goes on with the file of an earlier boot; true if absent.
	Append *bool `json:"append,omitempty"`
}

// SecurityPolicy is for the confinement of QEMU.
type SecurityPolicy struct {
	SecLabel *SecLabel `json:"seclabel,omitempty"`
	// resourcePartition is the cgroup of guests, such as /machine/production.
	// +kubebuilder:validation:Pattern=`^/`
	ResourcePartition string `json:"resourcePartition,omitempty"`
	// vtpmSecret is the UUID of libvirt's secret that encrypts the state of TPMs.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	VTPMSecret string `json:"vtpmSecret,omitempty"`
	// nwfilter 'spoofing' keeps guests on taps and bridges from sending under other MAC addresses than their own, with filters that Kiln
	// writes; 'none' leaves them, whatever the launcher's --guard says. Needs ebtables on the host.
	// +kubebuilder:validation:Enum=spoofing;none
	NWFilter string `json:"nwfilter,omitempty"`
}

// SecLabel is a label of a security driver of the host.
type SecLabel struct {
	// +kubebuilder:validation:Enum=dynamic;static;none
	Type string `json:"type,omitempty"`
	// model is the driver.
	// +kubebuilder:validation:Enum=selinux;apparmor;dac
	Model string `json:"model,omitempty"`
	// label of QEMU with type 'static'.
	Label string `json:"label,omitempty"`
	// relabel tells whether images get a label too.
	Relabel *bool `json:"relabel,omitempty"`
}

// PathTemplates are Go templates of paths with .Namespace, .Name and .UID, and for channels .Channel. Folders must exist.
type PathTemplates struct {
	VNC     string `json:"vnc,omitempty"`
	Serial  string `json:"serial,omitempty"`
	Channel string `json:"channel,omitempty"`
	NVRAM   string `json:"nvram,omitempty"`
	// swtpm is the folder of a TPM's state. Who changes it, or nvram, moves the files of guests that have run: else these find an empty TPM,
	// or no boot entries.
	SWTPM string `json:"swtpm,omitempty"`
}

// LifecyclePolicy is for crashes of a guest.
type LifecyclePolicy struct {
	// +kubebuilder:validation:Enum=destroy;restart;preserve;coredump-destroy;coredump-restart
	OnCrash string `json:"onCrash,omitempty"`
	// coreDump tells whether memory of the guest is part of a dump of QEMU.
	CoreDump *bool `json:"coreDump,omitempty"`
}
