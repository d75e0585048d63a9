package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostProfile is an administrator's policy for how hosts run VMIs. A HostProfile sets only fields that the guests do not see: caches, limits, pinning,
// placement. A field that the owner of a VM sets wins over the profile. A HostProfile never changes a guest's hardware.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=hp,categories=kiln
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Conflicting",type=string,JSONPath=`.status.conditions[?(@.type=="Conflicting")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type HostProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              HostProfileSpec   `json:"spec,omitempty"`
	Status            HostProfileStatus `json:"status,omitempty"`
}

// HostProfileStatus is what Kiln's controller reports about a profile.
type HostProfileStatus struct {
	// conditions are of type Accepted, which is False if hosts ignore the profile or one of its fields, and of type Conflicting, which is True if another profile
	// of the same priority differs in a field. Both contain the reason.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Condition types of HostProfiles.
const (
	// ConditionAccepted reports whether hosts apply all of a profile.
	ConditionAccepted = "Accepted"
	// ConditionConflicting reports whether another profile of the same priority may select the same VMI on the same host and differs in a
	// field. Such a VMI does not start.
	ConditionConflicting = "Conflicting"
	// ConditionServed reports whether all fields of a profile have an effect on guests in pods. It is written only if guests run in pods.
	ConditionServed = "Served"
)

// Reasons of ConditionAccepted, ConditionConflicting and ConditionServed on HostProfiles.
const (
	// ReasonAccepted means that the profile can be read.
	ReasonAccepted = "Accepted"
	// ReasonInvalidSelector means that a selector of the profile cannot be read. Hosts ignore the profile.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonInvalidField means that a field of the profile cannot be read. Hosts ignore the field, or refuse the VMIs that the profile selects if a start
	// without the field would do harm.
	ReasonInvalidField = "InvalidField"
	// ReasonFieldsDiffer means that the profile is in conflict with another.
	ReasonFieldsDiffer = "FieldsDiffer"
	// ReasonNoConflict means that the profile is not in conflict with another.
	ReasonNoConflict = "NoConflict"
	// ReasonTooManyProfiles means that the profile could not be compared with all others of its priority.
	ReasonTooManyProfiles = "TooManyProfiles"
	// ReasonServed means that all fields of the profile have an effect in a pod.
	ReasonServed = "Served"
	// ReasonNotServedInPods means that some fields of the profile have no effect in a pod.
	ReasonNotServedInPods = "NotServedInPods"
)

// HostProfileList is a list of profiles.
// +kubebuilder:object:root=true
type HostProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostProfile `json:"items"`
}

// HostProfileSpec is a policy with selectors of VMIs and hosts.
type HostProfileSpec struct {
	// vmiSelector selects VirtualMachineInstances by their labels. The owner of a VM chooses its labels. Default: all VMIs.
	VMISelector *metav1.LabelSelector `json:"vmiSelector,omitempty"`
	// nodeSelector selects hosts by the labels of their launcher. Default: all hosts.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// priority decides field by field: of the profiles that set a field, the profile with the highest priority wins. Two profiles of one
	// priority must not differ in a field. -1000000000 to 1000000000. Default: 0.
	// +kubebuilder:validation:Minimum=-1000000000
	// +kubebuilder:validation:Maximum=1000000000
	Priority   int32 `json:"priority,omitempty"`
	HostPolicy `json:",inline"`
}

// HostPolicy is the result of merging profiles. Kiln, libvirt and QEMU decide the fields that it leaves out.
type HostPolicy struct {
	// disk is for disks, unless the VMI sets the field of the disk. Domain: devices/disk/driver.
	Disk *DiskPolicy `json:"disk,omitempty"`
	// diskLimits bound each disk, or a group of disks. Domain: devices/disk/iotune.
	DiskLimits *DiskLimits `json:"diskLimits,omitempty"`
	// blockIO is the VMI's share of the host's disks. Domain: blkiotune.
	BlockIO *BlockIOPolicy `json:"blockIO,omitempty"`
	// ioThreads are the threads for the IO of virtio disks. Domain: iothreads and iothreadids.
	IOThreads *IOThreadsPolicy `json:"ioThreads,omitempty"`
	// cpu decides on which host CPUs the guest's CPUs run, and for how long. Domain: cputune.
	CPU *CPUPolicy `json:"cpu,omitempty"`
	// cache is the VMI's part of the processor's cache and memory bandwidth. Domain: cputune/cachetune and cputune/memorytune.
	Cache *CachePolicy `json:"cache,omitempty"`
	// memory is the backing of the guest's memory. Domain: memoryBacking and memtune.
	Memory *MemoryPolicy `json:"memory,omitempty"`
	// numa decides from which NUMA nodes a VMI with dedicated CPUs gets its memory. Domain: numatune.
	NUMA *NUMAPolicy `json:"numa,omitempty"`
	// net is the host's side of interfaces. Domain: devices/interface.
	Net *NetPolicy `json:"net,omitempty"`
	// balloon is for memory statistics. Domain: devices/memballoon.
	Balloon *BalloonPolicy `json:"balloon,omitempty"`
	// rng is for random number generators. Domain: devices/rng.
	RNG *RNGPolicy `json:"rng,omitempty"`
	// graphics is for VNC. Domain: devices/graphics.
	Graphics *GraphicsPolicy `json:"graphics,omitempty"`
	// serialLog writes the output of guests' serial consoles to files. Domain: devices/serial/log.
	SerialLog *SerialLogPolicy `json:"serialLog,omitempty"`
	// security is the confinement of QEMU. Domain: seclabel, resource, tpm/backend/encryption and interface/filterref.
	Security *SecurityPolicy `json:"security,omitempty"`
	// pathTemplates are paths of sockets and files of the guest. Domain: the sources of devices, and os/nvram.
	PathTemplates *PathTemplates `json:"pathTemplates,omitempty"`
	// lifecycle sets the actions after a crash of the guest. Domain: on_crash and memory@dumpCore.
	Lifecycle *LifecyclePolicy `json:"lifecycle,omitempty"`
}
