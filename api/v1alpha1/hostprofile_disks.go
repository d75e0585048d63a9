package v1alpha1

// DiskPolicy is for disks whose VM does not say otherwise.
type DiskPolicy struct {
	// cachePolicy of the host's page cache; 'auto' bypasses it where the file system can.
	// +kubebuilder:validation:Enum=auto;none;writethrough;writeback;directsync;unsafe
	CachePolicy string `json:"cachePolicy,omitempty"`
	// ioPolicy is how QEMU asks for data; 'auto' is 'native' for block devices that bypass the page cache.
	// +kubebuilder:validation:Enum=auto;native;threads;io_uring
	IOPolicy string `json:"ioPolicy,omitempty"`
	// discard 'unmap' gives back the space that a guest discards.
	// +kubebuilder:validation:Enum=unmap;ignore
	Discard string `json:"discard,omitempty"`
	// detectZeroes writes zeroes efficiently ('on'), or gives their space back ('unmap', with discard 'unmap').
	// +kubebuilder:validation:Enum="off";"on";unmap
	DetectZeroes string `json:"detectZeroes,omitempty"`
	// errorPolicy is what happens when a read or write fails.
	// +kubebuilder:validation:Enum=stop;report;ignore;enospace
	ErrorPolicy string `json:"errorPolicy,omitempty"`
	// rerrorPolicy is what happens when a read fails, where that differs.
	// +kubebuilder:validation:Enum=stop;report;ignore
	ReadErrorPolicy string `json:"rerrorPolicy,omitempty"`
	// metadataCacheBytes is the memory for the tables of a qcow2 image, in bytes.
	// +kubebuilder:validation:Minimum=1
	MetadataCacheBytes *int64 `json:"metadataCacheBytes,omitempty"`
}

// DiskLimits hold for each disk, or for all disks of a group together. Bytes and operations are per second.
type DiskLimits struct {
	// +kubebuilder:validation:Minimum=1
	TotalBytesPerSec *int64 `json:"totalBytesPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	ReadBytesPerSec *int64 `json:"readBytesPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	WriteBytesPerSec *int64 `json:"writeBytesPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	TotalIopsPerSec *int64 `json:"totalIopsPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	ReadIopsPerSec *int64 `json:"readIopsPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	WriteIopsPerSec *int64 `json:"writeIopsPerSec,omitempty"`
	// Bursts are what a disk may have for burstLengthSec seconds.
	// +kubebuilder:validation:Minimum=1
	BurstTotalBytesPerSec *int64 `json:"burstTotalBytesPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	BurstReadBytesPerSec *int64 `json:"burstReadBytesPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	BurstWriteBytesPerSec *int64 `json:"burstWriteBytesPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	BurstTotalIopsPerSec *int64 `json:"burstTotalIopsPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	BurstReadIopsPerSec *int64 `json:"burstReadIopsPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	BurstWriteIopsPerSec *int64 `json:"burstWriteIopsPerSec,omitempty"`
	// burstLengthSec is in seconds, 1 if absent.
	// +kubebuilder:validation:Minimum=1
	BurstLengthSec *int64 `json:"burstLengthSec,omitempty"`
	// sizeIopsBytes is the size from which an operation counts as several, in bytes.
	// +kubebuilder:validation:Minimum=1
	SizeIopsBytes *int64 `json:"sizeIopsBytes,omitempty"`
	// group is the throttle group that the guest's disks share; without one each disk has the limits for itself.
	Group string `json:"group,omitempty"`
}

// BlockIOPolicy is the guest's share of the host's disks (cgroup).
type BlockIOPolicy struct {
	// weight of the guest against others.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=1000
	Weight *int32 `json:"weight,omitempty"`
	// perDevice are shares and limits of block devices of the host.
	// +listType=map
	// +listMapKey=path
	PerDevice []BlockIODevice `json:"perDevice,omitempty"`
}

// BlockIODevice is a guest's share of one block device of the host. Bytes and operations are per second.
type BlockIODevice struct {
	// path of the device, such as /dev/sda.
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path"`
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=1000
	Weight *int32 `json:"weight,omitempty"`
	// +kubebuilder:validation:Minimum=1
	ReadBytesPerSec *int64 `json:"readBytesPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	WriteBytesPerSec *int64 `json:"writeBytesPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	ReadIopsPerSec *int64 `json:"readIopsPerSec,omitempty"`
	// +kubebuilder:validation:Minimum=1
	WriteIopsPerSec *int64 `json:"writeIopsPerSec,omitempty"`
}

// IOThreadsPolicy is for the threads that serve virtio disks.
type IOThreadsPolicy struct {
	// policy of guests that name none: 'none', one thread for all disks ('shared') or several ('auto').
	// +kubebuilder:validation:Enum=none;shared;auto
	Policy string `json:"policy,omitempty"`
	// count is how many threads disks share with policy 'auto'; absent means one each, up to twice the guest's CPUs.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=512
	Count *int32 `json:"count,omitempty"`
	// pollMaxNs is how long a thread polls before it sleeps, in nanoseconds; 0 never polls.
	// +kubebuilder:validation:Minimum=0
	PollMaxNs *int64 `json:"pollMaxNs,omitempty"`
	// poolMin and poolMax bound the worker threads of each.
	// +kubebuilder:validation:Minimum=0
	PoolMin *int32 `json:"poolMin,omitempty"`
	// +kubebuilder:validation:Minimum=1
	PoolMax *int32 `json:"poolMax,omitempty"`
	// pin is the host's CPUs that the threads run on, such as '0-3,8'.
	Pin string `json:"pin,omitempty"`
}
