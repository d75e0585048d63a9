package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// DiskPolicy is for disks, unless the VMI sets the field of the disk. Domain: devices/disk/driver.
// +kubebuilder:validation:XValidation:rule=`!has(self.detectZeroes) || !has(self.discard) || self.detectZeroes != 'Unmap' || self.discard == 'Unmap'`,message="'Unmap' needs discard 'Unmap'",fieldPath=`.detectZeroes`
type DiskPolicy struct {
	// cachePolicy is the use of the host's page cache; 'Auto' bypasses it if the file system can. A disk's own 'cache' wins. Default: Auto.
	// Domain: driver@cache.
	// +kubebuilder:validation:Enum=Auto;None;WriteThrough;WriteBack;DirectSync;Unsafe
	CachePolicy string `json:"cachePolicy,omitempty"`
	// ioPolicy is how QEMU asks for data; 'Auto' is 'Native' for block devices that bypass the page cache. A disk's own 'io' wins. Default:
	// Auto. Domain: driver@io.
	// +kubebuilder:validation:Enum=Auto;Native;Threads;IOUring
	IOPolicy string `json:"ioPolicy,omitempty"`
	// discard 'Unmap' frees the space that a guest discards; 'Ignore' keeps the space. Default: Unmap. Domain: driver@discard.
	// +kubebuilder:validation:Enum=Unmap;Ignore
	Discard string `json:"discard,omitempty"`
	// detectZeroes writes zeroes efficiently ('Enabled'), or frees their space ('Unmap', which needs discard 'Unmap'). Default: QEMU's, Disabled. Domain:
	// driver@detect_zeroes.
	// +kubebuilder:validation:Enum=Disabled;Enabled;Unmap
	DetectZeroes string `json:"detectZeroes,omitempty"`
	// errorPolicy is the reaction to a failed read or write; 'Enospace' stops the guest when the host's disk is full and reports other errors to it. A disk's own
	// 'errorPolicy' wins. Default: Stop. Domain: driver@error_policy.
	// +kubebuilder:validation:Enum=Stop;Report;Ignore;Enospace
	ErrorPolicy string `json:"errorPolicy,omitempty"`
	// readErrorPolicy is the reaction to a failed read. A disk's own 'errorPolicy' wins. Default: as errorPolicy. Domain: driver@rerror_policy.
	// +kubebuilder:validation:Enum=Stop;Report;Ignore
	ReadErrorPolicy string `json:"readErrorPolicy,omitempty"`
	// metadataCacheSize is the memory for the tables of each qcow2 image, in bytes. Default: QEMU's. Domain: driver/metadata_cache/max_size.
	MetadataCacheSize *resource.Quantity `json:"metadataCacheSize,omitempty"`
}

// DiskLimits apply to each disk, or to all disks of a group together. A total limit cannot be combined with a limit of reads or writes. A burst
// needs the limit of the same kind. Domain: devices/disk/iotune.
// +kubebuilder:validation:XValidation:rule=`!has(self.totalBytesPerSecond) || !has(self.readBytesPerSecond) && !has(self.writeBytesPerSecond)`,message="cannot be combined with readBytesPerSecond or writeBytesPerSecond",fieldPath=`.totalBytesPerSecond`
// +kubebuilder:validation:XValidation:rule=`!has(self.totalIOPS) || !has(self.readIOPS) && !has(self.writeIOPS)`,message="cannot be combined with readIOPS or writeIOPS",fieldPath=`.totalIOPS`
// +kubebuilder:validation:XValidation:rule=`!has(self.burstTotalBytesPerSecond) || !has(self.burstReadBytesPerSecond) && !has(self.burstWriteBytesPerSecond)`,message="cannot be combined with burstReadBytesPerSecond or burstWriteBytesPerSecond",fieldPath=`.burstTotalBytesPerSecond`
// +kubebuilder:validation:XValidation:rule=`!has(self.burstTotalIOPS) || !has(self.burstReadIOPS) && !has(self.burstWriteIOPS)`,message="cannot be combined with burstReadIOPS or burstWriteIOPS",fieldPath=`.burstTotalIOPS`
type DiskLimits struct {
	// totalBytesPerSecond limits reads and writes together, in bytes per second. Default: no limit. Domain: iotune/total_bytes_sec.
	TotalBytesPerSecond *resource.Quantity `json:"totalBytesPerSecond,omitempty"`
	// readBytesPerSecond limits reads, in bytes per second. Default: no limit. Domain: iotune/read_bytes_sec.
	ReadBytesPerSecond *resource.Quantity `json:"readBytesPerSecond,omitempty"`
	// writeBytesPerSecond limits writes, in bytes per second. Default: no limit. Domain: iotune/write_bytes_sec.
	WriteBytesPerSecond *resource.Quantity `json:"writeBytesPerSecond,omitempty"`
	// totalIOPS limits reads and writes together, in operations per second; at least 1. Default: no limit. Domain: iotune/total_iops_sec.
	// +kubebuilder:validation:Minimum=1
	TotalIOPS *int64 `json:"totalIOPS,omitempty"`
	// readIOPS limits reads, in operations per second; at least 1. Default: no limit. Domain: iotune/read_iops_sec.
	// +kubebuilder:validation:Minimum=1
	ReadIOPS *int64 `json:"readIOPS,omitempty"`
	// writeIOPS limits writes, in operations per second; at least 1. Default: no limit. Domain: iotune/write_iops_sec.
	// +kubebuilder:validation:Minimum=1
	WriteIOPS *int64 `json:"writeIOPS,omitempty"`
	// burstTotalBytesPerSecond is the limit of totalBytesPerSecond during a burst, in bytes per second. Default: none.
	// Domain: iotune/total_bytes_sec_max.
	BurstTotalBytesPerSecond *resource.Quantity `json:"burstTotalBytesPerSecond,omitempty"`
	// burstReadBytesPerSecond is the limit of readBytesPerSecond during a burst, in bytes per second. Default: none.
	// Domain: iotune/read_bytes_sec_max.
	BurstReadBytesPerSecond *resource.Quantity `json:"burstReadBytesPerSecond,omitempty"`
	// burstWriteBytesPerSecond is the limit of writeBytesPerSecond during a burst, in bytes per second. Default: none.
	// Domain: iotune/write_bytes_sec_max.
	BurstWriteBytesPerSecond *resource.Quantity `json:"burstWriteBytesPerSecond,omitempty"`
	// burstTotalIOPS is the limit of totalIOPS during a burst, in operations per second; at least 1. Default: none.
	// Domain: iotune/total_iops_sec_max.
	// +kubebuilder:validation:Minimum=1
	BurstTotalIOPS *int64 `json:"burstTotalIOPS,omitempty"`
	// burstReadIOPS is the limit of readIOPS during a burst, in operations per second; at least 1. Default: none.
	// Domain: iotune/read_iops_sec_max.
	// +kubebuilder:validation:Minimum=1
	BurstReadIOPS *int64 `json:"burstReadIOPS,omitempty"`
	// burstWriteIOPS is the limit of writeIOPS during a burst, in operations per second; at least 1. Default: none.
	// Domain: iotune/write_iops_sec_max.
	// +kubebuilder:validation:Minimum=1
	BurstWriteIOPS *int64 `json:"burstWriteIOPS,omitempty"`
	// burstLengthSeconds is how long a burst may last, in seconds; at least 1. Default: QEMU's, 1. Domain: iotune/*_max_length, for each
	// burst that is set.
	// +kubebuilder:validation:Minimum=1
	BurstLengthSeconds *int64 `json:"burstLengthSeconds,omitempty"`
	// operationSize is the size above which one operation counts as several, in bytes. Default: each counts as one.
	// Domain: iotune/size_iops_sec.
	OperationSize *resource.Quantity `json:"operationSize,omitempty"`
	// group is the throttle group whose limits the VMI's disks share. Default: the limits hold for each disk. Domain: iotune/group_name.
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
}

// BlockIOPolicy is a VMI's share of the host's disks (cgroup). Domain: blkiotune.
type BlockIOPolicy struct {
	// weight of the VMI against others, without a unit; 100 to 1000. Default: the weight of the host's cgroup. Domain: blkiotune/weight.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=1000
	Weight *int32 `json:"weight,omitempty"`
	// perDevice are shares and limits of single block devices of the host; at most 64. Default: none. Domain: blkiotune/device.
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=64
	PerDevice []BlockIODevice `json:"perDevice,omitempty"`
}

// BlockIODevice is a VMI's share of one block device of the host. Domain: blkiotune/device.
type BlockIODevice struct {
	// path of the device on the host, such as /dev/sda. Required. Domain: device/path.
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`
	// weight of the VMI against others, without a unit; 100 to 1000. Default: the weight of the host's cgroup. Domain: device/weight.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=1000
	Weight *int32 `json:"weight,omitempty"`
	// readBytesPerSecond limits reads, in bytes per second. Default: no limit. Domain: device/read_bytes_sec.
	ReadBytesPerSecond *resource.Quantity `json:"readBytesPerSecond,omitempty"`
	// writeBytesPerSecond limits writes, in bytes per second. Default: no limit. Domain: device/write_bytes_sec.
	WriteBytesPerSecond *resource.Quantity `json:"writeBytesPerSecond,omitempty"`
	// readIOPS limits reads, in operations per second; at least 1. Default: no limit. Domain: device/read_iops_sec.
	// +kubebuilder:validation:Minimum=1
	ReadIOPS *int64 `json:"readIOPS,omitempty"`
	// writeIOPS limits writes, in operations per second; at least 1. Default: no limit. Domain: device/write_iops_sec.
	// +kubebuilder:validation:Minimum=1
	WriteIOPS *int64 `json:"writeIOPS,omitempty"`
}

// IOThreadsPolicy is for the threads for the IO of virtio disks. Domain: iothreads and iothreadids.
// +kubebuilder:validation:XValidation:rule=`!has(self.poolMin) || !has(self.poolMax) || self.poolMin <= self.poolMax`,message="must not be greater than poolMax",fieldPath=`.poolMin`
type IOThreadsPolicy struct {
	// policy of a VMI without ioThreadsPolicy: no threads ('None'), one for all disks ('Shared') or several ('Auto'). Default: None. Domain: iothreads.
	// +kubebuilder:validation:Enum=None;Shared;Auto
	Policy string `json:"policy,omitempty"`
	// count is how many threads the disks share with policy 'Auto'; 1 to 512. Default: one each, up to twice the VMI's CPUs.
	// Domain: iothreads.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=512
	Count *int32 `json:"count,omitempty"`
	// pollMaxNanoseconds is how long a thread polls before it sleeps, in nanoseconds; 0 never polls. Default: QEMU's.
	// Domain: iothreadids/iothread/poll@max.
	// +kubebuilder:validation:Minimum=0
	PollMaxNanoseconds *int64 `json:"pollMaxNanoseconds,omitempty"`
	// poolMin is the number of workers that each thread keeps; 0 to 1024, and not above poolMax. Default: QEMU's.
	// Domain: iothreadids/iothread@thread_pool_min.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1024
	PoolMin *int32 `json:"poolMin,omitempty"`
	// poolMax is the largest number of workers of each thread; 1 to 1024. Default: QEMU's. Domain: iothreadids/iothread@thread_pool_max.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	PoolMax *int32 `json:"poolMax,omitempty"`
	// cpus are the host CPUs of the threads: a list such as '0-3,8'. Default: the VMI's own CPUs, if they are dedicated.
	// Domain: cputune/iothreadpin.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.matches('^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$') && self.split(',').all(r, !r.contains('-') || int(r.split('-')[0]) <= int(r.split('-')[1]))`,message="must be a list of CPUs such as '0-3,8'"
	CPUs string `json:"cpus,omitempty"`
}
