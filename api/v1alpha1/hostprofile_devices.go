package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// NetPolicy is for the host's side of interfaces. Domain: devices/interface.
type NetPolicy struct {
	// vhost decides whether the host's kernel (true) or QEMU (false) moves the packets of virtio interfaces. Default: libvirt's choice. Domain:
	// interface/driver@name.
	VHost *bool `json:"vhost,omitempty"`
	// inbound limits the packets that the guest receives. Domain: interface/bandwidth/inbound.
	Inbound *BandwidthPolicy `json:"inbound,omitempty"`
	// outbound limits the packets that the guest sends. Domain: interface/bandwidth/outbound.
	Outbound *BandwidthPolicy `json:"outbound,omitempty"`
	// filterRef is the name of a network filter of libvirt on the host, such as clean-traffic. Default: none. Domain: interface/filterref@filter.
	// +kubebuilder:validation:MaxLength=253
	FilterRef string `json:"filterRef,omitempty"`
	// trustRx lets the guest change which packets the host's macvtap receives for it. Default: false.
	// Domain: interface@trustGuestRxFilters.
	TrustRx *bool `json:"trustRx,omitempty"`
	// coalesceFrames is how many received frames one interrupt is for; at least 1. Default: the host's. Domain:
	// interface/coalesce/rx/frames@max.
	// +kubebuilder:validation:Minimum=1
	CoalesceFrames *int32 `json:"coalesceFrames,omitempty"`
	// isolated keeps a guest from reaching other isolated guests on its bridge. Default: false. Domain: interface/port@isolated.
	Isolated *bool `json:"isolated,omitempty"`
}

// BandwidthPolicy limits one direction of each interface. If the merged policy sets one of the other fields, it must set averageBytesPerSecond.
type BandwidthPolicy struct {
	// averageBytesPerSecond is the rate that is kept in the long run, in bytes per second, rounded up to kilobytes (1000 bytes). Default: no
	// limit. Domain: inbound@average or outbound@average.
	AverageBytesPerSecond *resource.Quantity `json:"averageBytesPerSecond,omitempty"`
	// peakBytesPerSecond is the highest rate of a burst, in bytes per second, rounded up to kilobytes (1000 bytes). Default: no limit.
	// Domain: inbound@peak or outbound@peak.
	PeakBytesPerSecond *resource.Quantity `json:"peakBytesPerSecond,omitempty"`
	// burstSize is how much passes at the peak rate, in bytes, rounded up to KiB. Default: the size of the host's kernel. Domain:
	// inbound@burst or outbound@burst.
	BurstSize *resource.Quantity `json:"burstSize,omitempty"`
}

// BalloonPolicy is for memory statistics. Domain: devices/memballoon.
type BalloonPolicy struct {
	// statsPeriodSeconds is how often the guest is asked for its memory statistics, in seconds; 0 never asks. Default: 10.
	// Domain: memballoon/stats@period.
	// +kubebuilder:validation:Minimum=0
	StatsPeriodSeconds *int32 `json:"statsPeriodSeconds,omitempty"`
}

// RNGPolicy is for random number generators. Domain: devices/rng.
type RNGPolicy struct {
	// source is the device of the host that random bytes come from. Default: /dev/urandom. Domain: rng/backend.
	// +kubebuilder:validation:Enum=/dev/urandom;/dev/random;/dev/hwrng
	Source string `json:"source,omitempty"`
	// bytesPerPeriod is how much the guest gets in a period, in bytes, up to 2Gi less one. Default: no limit. Domain: rng/rate@bytes.
	// +kubebuilder:validation:XValidation:rule=`quantity(string(self)).isInteger() && quantity(string(self)).asInteger() > 0 && quantity(string(self)).isLessThan(quantity('2Gi'))`,message="must be a positive whole number below 2Gi"
	BytesPerPeriod *resource.Quantity `json:"bytesPerPeriod,omitempty"`
	// periodMilliseconds is the period of bytesPerPeriod, in milliseconds; at least 1. Default: 1000. Domain: rng/rate@period.
	// +kubebuilder:validation:Minimum=1
	PeriodMilliseconds *int32 `json:"periodMilliseconds,omitempty"`
}

// GraphicsPolicy is for VNC. Domain: devices/graphics.
type GraphicsPolicy struct {
	// listen is 'Socket', or the IP address of the host that VNC listens on. Everybody who reaches the address sees the screen. Default: Socket, in the
	// VMI's own folder. Domain: graphics/listen.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule=`self in ['', 'Socket'] || isIP(self)`,message="must be 'Socket' or an IP address"
	Listen string `json:"listen,omitempty"`
}

// SerialLogPolicy keeps the output of guests on their serial console. Domain: devices/serial.
type SerialLogPolicy struct {
	// dir is the folder of the host for the files, an absolute path; a file's name is NAMESPACE_NAME.log. Default: no file.
	// Domain: serial/log@file.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.matches('^/[^[:cntrl:]]*$') && !('..' in self.split('/'))`,message="must be an absolute path without '..'"
	Dir string `json:"dir,omitempty"`
	// append goes on with the file of an earlier boot; 'false' overwrites it. Default: true. Domain: serial/log@append.
	Append *bool `json:"append,omitempty"`
}

// SecurityPolicy is for the confinement of QEMU.
type SecurityPolicy struct {
	// secLabel is the label that QEMU runs with. Domain: seclabel.
	SecLabel *SecLabelPolicy `json:"secLabel,omitempty"`
	// resourcePartition is the cgroup of VMIs, an absolute path such as /machine/production. Default: libvirt's, /machine.
	// Domain: resource/partition.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.matches('^/[^[:cntrl:]]*$') && !('..' in self.split('/'))`,message="must be an absolute path without '..'"
	ResourcePartition string `json:"resourcePartition,omitempty"`
	// vtpmSecret is the UUID of the secret in libvirt that encrypts the state of TPMs. Default: the key in the launcher's --tpm-keys, if the folder contains one.
	// Domain: tpm/backend/encryption@secret.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	VTPMSecret string `json:"vtpmSecret,omitempty"`
	// nwFilter 'AntiSpoofing' keeps VMIs on taps and bridges from sending with other MAC addresses than their own. Kiln writes filters for this, and the host
	// needs ebtables. 'None' does not filter, whatever the launcher's --guard. Default: the value of --guard. Domain: interface/filterref, and nwfilter documents.
	// +kubebuilder:validation:Enum=AntiSpoofing;None
	NWFilter string `json:"nwFilter,omitempty"`
}

// SecLabelPolicy is a label of a security driver of the host. Domain: seclabel.
// +kubebuilder:validation:XValidation:rule=`!has(self.label) || size(self.label) == 0 || !has(self.type) || self.type == 'Static'`,message="is for type Static alone",fieldPath=`.label`
type SecLabelPolicy struct {
	// type decides whether libvirt makes the label (Dynamic), the profile sets it (Static), or QEMU runs without a label (None). Default: libvirt's, Dynamic.
	// Domain: seclabel@type.
	// +kubebuilder:validation:Enum=Dynamic;Static;None
	Type string `json:"type,omitempty"`
	// model is the security driver. Default: the host's first. Domain: seclabel@model.
	// +kubebuilder:validation:Enum=SELinux;AppArmor;DAC
	Model string `json:"model,omitempty"`
	// label is QEMU's label with type 'Static', as the driver spells it. Domain: seclabel/label.
	// +kubebuilder:validation:MaxLength=1024
	Label string `json:"label,omitempty"`
	// relabel reports whether images get a label too. Default: libvirt's: true, and false with type 'Static'. Domain: seclabel@relabel.
	Relabel *bool `json:"relabel,omitempty"`
}

// PathTemplates are absolute paths of the host in which {{.Namespace}}, {{.Name}} and {{.UID}} stand for the VMI's. The folder must exist. If a template does
// not contain these words, all VMIs that the profile selects share one file.
type PathTemplates struct {
	// vnc is the socket of VNC. Default: in the VMI's own folder. Domain: graphics@socket.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.matches('^(/([^{}/[:cntrl:]]|[{][{] ?[.](Namespace|Name|UID) ?[}][}])+)+$') && self.split('/').all(s, !(s in ['.', '..']))`,message="must be an absolute path without '..'; {{.Namespace}}, {{.Name}} and {{.UID}} may stand in it"
	VNC string `json:"vnc,omitempty"`
	// serial is the socket of the serial console. Default: in the VMI's own folder. Domain: serial/source@path and console/source@path.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.matches('^(/([^{}/[:cntrl:]]|[{][{] ?[.](Namespace|Name|UID) ?[}][}])+)+$') && self.split('/').all(s, !(s in ['.', '..']))`,message="must be an absolute path without '..'; {{.Namespace}}, {{.Name}} and {{.UID}} may stand in it"
	Serial string `json:"serial,omitempty"`
	// channel is the socket of a channel; {{.Channel}} stands for its name. Default: libvirt's own. Domain: channel/source@path.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.matches('^(/([^{}/[:cntrl:]]|[{][{] ?[.](Namespace|Name|UID|Channel) ?[}][}])+)+$') && self.split('/').all(s, !(s in ['.', '..']))`,message="must be an absolute path without '..'; {{.Namespace}}, {{.Name}}, {{.UID}} and {{.Channel}} may stand in it"
	Channel string `json:"channel,omitempty"`
	// nvram is the file of the EFI variables. Before you change it, move the files of VMs that have run. Otherwise these lose their boot entries. Default: in the
	// VMI's own folder. Domain: os/nvram.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.matches('^(/([^{}/[:cntrl:]]|[{][{] ?[.](Namespace|Name|UID) ?[}][}])+)+$') && self.split('/').all(s, !(s in ['.', '..']))`,message="must be an absolute path without '..'; {{.Namespace}}, {{.Name}} and {{.UID}} may stand in it"
	NVRAM string `json:"nvram,omitempty"`
	// swtpm is the folder of a TPM's state. Before you change it, move the folders of VMs that have run. Otherwise these find an empty TPM. Default: below the
	// launcher's --tpm-states. Domain: tpm/backend/source@path.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.matches('^(/([^{}/[:cntrl:]]|[{][{] ?[.](Namespace|Name|UID) ?[}][}])+)+$') && self.split('/').all(s, !(s in ['.', '..']))`,message="must be an absolute path without '..'; {{.Namespace}}, {{.Name}} and {{.UID}} may stand in it"
	SWTPM string `json:"swtpm,omitempty"`
}

// LifecyclePolicy is for crashes of a guest.
type LifecyclePolicy struct {
	// onCrash is the action of libvirt after a crash of the guest. Default: Destroy. Domain: on_crash.
	// +kubebuilder:validation:Enum=Destroy;Restart;Preserve;CoredumpDestroy;CoredumpRestart
	OnCrash string `json:"onCrash,omitempty"`
	// coreDump reports whether the guest's memory is part of a dump of the QEMU process. Default: QEMU's. Domain: memory@dumpCore.
	CoreDump *bool `json:"coreDump,omitempty"`
}
