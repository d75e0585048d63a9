package v1alpha1

// Condition types and reasons that Kiln writes on VMs and VMIs. Types of kubevirt.io (Ready, Paused, Synchronized, Failure) keep their meaning. The files of
// Kiln's own kinds contain the types and reasons for these kinds.

// ConditionHostPolicyChanged is on VMIs whose HostProfiles have changed since the start of their domain.
const ConditionHostPolicyChanged = "HostPolicyChanged"

// Reasons of ConditionHostPolicyChanged.
const (
	// ReasonNextStart means that the next start applies the change.
	ReasonNextStart = "NextStart"
	// ReasonRefused means that the HostProfiles cannot be merged. The next start would be refused.
	ReasonRefused = "Refused"
)

// ConditionHardwareChange is on VMIs whose running guest has not received a change of its links, media or devices that the VMI requests. KubeVirt's
// HotVCPUChange and HotMemoryChange are the same for CPUs and memory.
const ConditionHardwareChange = "HotHardwareChange"

// Reasons of ConditionHardwareChange, HotVCPUChange and HotMemoryChange. ReasonNotPlaceable is such a reason, too.
const (
	// ReasonGuestAsked means that Kiln has requested the change from libvirt or the guest, which has not made it. Kiln requests it again.
	ReasonGuestAsked = "GuestAsked"
	// ReasonPodResizePending means that kubelet has not granted the resources that the pod requests. It is Kubernetes' word.
	ReasonPodResizePending = "PodResizePending"
	// ReasonPodResizeInProgress means that kubelet is giving the pod the resources that it requests. It is Kubernetes' word.
	ReasonPodResizeInProgress = "PodResizeInProgress"
	// ReasonFailedResize means that the API server has refused to resize the pod: its node could never hold it, a quota, a LimitRange or a webhook refuses
	// it, or Kubernetes is too old.
	ReasonFailedResize = "FailedResize"
)

// Reasons of Synchronized on VMIs: why a VMI does not run on the node that claimed it.
const (
	// ReasonStarted means that the domain runs as the spec requires.
	ReasonStarted = "Started"
	// ReasonNotExplicit means that the spec has not been through admission.
	ReasonNotExplicit = "NotExplicit"
	// ReasonNotBindable means that the node lacks a volume, network or device of the VMI.
	ReasonNotBindable = "NotBindable"
	// ReasonNotRenderable means that no legal domain exists for the spec on this node.
	ReasonNotRenderable = "NotRenderable"
	// ReasonStartFailed means that libvirt refused to start the domain. It is also a reason of Ready.
	ReasonStartFailed = "StartFailed"
	// ReasonHardwareAwaited means that Kiln's controller has not written the VMI into the status of its GuestHardware.
	ReasonHardwareAwaited = "HardwareAwaited"
	// ReasonNotRecordable means that the hardware record could not be saved before the first start.
	ReasonNotRecordable = "NotRecordable"
	// ReasonNameTaken means that another owner's domain (on a VMI) or VMI (on a VM) uses the name.
	ReasonNameTaken = "NameTaken"
	// ReasonUUIDTaken means that another owner's domain uses the firmware UUID.
	ReasonUUIDTaken = "UUIDTaken"
)

// Reasons of Synchronized on VMIs whose guests run in pods: why the pod has not started its guest. They are Kubernetes' words if Kubernetes knows such a
// reason. ReasonNameTaken and ReasonFailedCreate are such reasons, too.
const (
	// ReasonNotPlaceable means that no pod can be made of the spec.
	ReasonNotPlaceable = "NotPlaceable"
	// ReasonFailedPvcNotFound means that a PersistentVolumeClaim of the spec does not exist. It is KubeVirt's word.
	ReasonFailedPvcNotFound = "FailedPvcNotFound"
	// ReasonFailedDataVolumeImport means that a DataVolume of the spec has failed. It is KubeVirt's word.
	ReasonFailedDataVolumeImport = "FailedDataVolumeImport"
	// ReasonProvisioning means that a DataVolume of the spec is not filled yet.
	ReasonProvisioning = "Provisioning"
	// ReasonWaitingForVolumeBinding means that a volume of the pod is bound when its storage has made it, or that a DataVolume of the spec waits for a first
	// consumer. It is KubeVirt's word.
	ReasonWaitingForVolumeBinding = "WaitingForVolumeBinding"
	// ReasonUnschedulable means that no node provides the free resources for the pod, or fits the pod. It is the scheduler's word.
	ReasonUnschedulable = "Unschedulable"
	// ReasonSchedulingGated means that the pod waits for its scheduling gates. It is Kubernetes' word.
	ReasonSchedulingGated = "SchedulingGated"
	// ReasonErrImagePull means that an image of the pod could not be pulled. It is kubelet's word.
	ReasonErrImagePull = "ErrImagePull"
	// ReasonImagePullBackOff means that kubelet waits before it pulls an image again. It is kubelet's word.
	ReasonImagePullBackOff = "ImagePullBackOff"
	// ReasonInvalidImageName means that the name of an image cannot be read. It is kubelet's word.
	ReasonInvalidImageName = "InvalidImageName"
	// ReasonErrImageNeverPull means that a node lacks an image that it may not pull. It is kubelet's word.
	ReasonErrImageNeverPull = "ErrImageNeverPull"
	// ReasonCreateContainerConfigError means that a ConfigMap, a Secret or a key of one is missing. It is kubelet's word.
	ReasonCreateContainerConfigError = "CreateContainerConfigError"
	// ReasonCreateContainerError means that the container runtime could not make the container. It is kubelet's word.
	ReasonCreateContainerError = "CreateContainerError"
	// ReasonPodStarting means that kubelet has not started the container of the pod for a while, and that the pod's status contains no reason.
	ReasonPodStarting = "PodStarting"
	// ReasonInvalidFacts means that the launcher has reported facts about its host that are not possible for the VMI.
	ReasonInvalidFacts = "InvalidFacts"
)

// Reasons of Ready on VMIs whose guests run in pods, besides the reasons of their domains: why the guest cannot be used, or why the VMI ended.
const (
	// ReasonPodNotReady means that the guest runs, and that its pod is not ready: a readiness probe fails.
	ReasonPodNotReady = "PodNotReady"
	// ReasonDisrupted means that the pod was evicted by the API, as a drain does, or preempted, or that a taint of its node has ended it.
	ReasonDisrupted = "Disrupted"
	// ReasonEvicted means that kubelet evicted the pod: its node had too little memory or disk, or the pod used more than its limit. It is kubelet's word.
	ReasonEvicted = "Evicted"
	// ReasonOOMKilled means that the container of the pod exceeded its memory limit. It is the container runtime's word.
	ReasonOOMKilled = "OOMKilled"
	// ReasonNodeLost means that the node of the pod does not answer. It is Kubernetes' word.
	ReasonNodeLost = "NodeLost"
	// ReasonDeadlineExceeded means that the pod ran longer than its activeDeadlineSeconds. It is kubelet's word.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonPodRejected means that kubelet rejected the pod: the node lacked the resources that it requests.
	ReasonPodRejected = "PodRejected"
	// ReasonPodEnded means that the pod ended, and its launcher has not reported how its domain ended.
	ReasonPodEnded = "PodEnded"
	// ReasonPodDeleted means that somebody deleted the pod while its VMI was to go on.
	ReasonPodDeleted = "PodDeleted"
	// ReasonPodGone means that somebody deleted the pod, and removed its finalizer.
	ReasonPodGone = "PodGone"
)

// Reasons of Ready on VMIs, and of the event at their end: why the domain of a VMI ended. ReasonNameTaken is such a reason, too.
const (
	// ReasonPoweredOff means that the guest powered off.
	ReasonPoweredOff = "PoweredOff"
	// ReasonStopped means that Kiln ended the domain after the grace period of the deleted VMI.
	ReasonStopped = "Stopped"
	// ReasonNeverStarted means that the VMI was deleted before its domain was started.
	ReasonNeverStarted = "NeverStarted"
	// ReasonDestroyed means that somebody other than Kiln destroyed the domain.
	ReasonDestroyed = "Destroyed"
	// ReasonCrashed means that the guest's kernel panicked, or that QEMU crashed or was killed.
	ReasonCrashed = "Crashed"
	// ReasonEndedWithHost means that the node or its libvirt daemon was restarted while the domain ran.
	ReasonEndedWithHost = "EndedWithHost"
	// ReasonEndedByLibvirt means that the libvirt daemon ended the domain when the daemon was restarted.
	ReasonEndedByLibvirt = "EndedByLibvirt"
	// ReasonMigrated means that somebody other than Kiln migrated the domain to another machine.
	ReasonMigrated = "Migrated"
	// ReasonSaved means that somebody other than Kiln saved the domain to a file.
	ReasonSaved = "Saved"
	// ReasonReverted means that somebody other than Kiln reverted the domain to a snapshot in which it is off.
	ReasonReverted = "Reverted"
	// ReasonDomainGone means that libvirt no longer knows the domain.
	ReasonDomainGone = "DomainGone"
)

// Reasons of Paused and of Ready on VMIs: why the domain of a VMI exists but executes nothing.
const (
	// ReasonPaused means that libvirt does not report why the domain is paused.
	ReasonPaused = "Paused"
	// ReasonPausedByUser means that the domain was started paused (spec.startStrategy) or was suspended. It is KubeVirt's word.
	ReasonPausedByUser = "PausedByUser"
	// ReasonPausedForMigration means that the domain is being migrated.
	ReasonPausedForMigration = "PausedForMigration"
	// ReasonPausedMigrationFailed means that the migration of the domain failed.
	ReasonPausedMigrationFailed = "PausedMigrationFailed"
	// ReasonPausedForSave means that the domain is being saved to a file.
	ReasonPausedForSave = "PausedForSave"
	// ReasonPausedForDump means that the memory of the domain is being dumped.
	ReasonPausedForDump = "PausedForDump"
	// ReasonPausedForSnapshot means that a snapshot of the domain is being taken.
	ReasonPausedForSnapshot = "PausedForSnapshot"
	// ReasonPausedFromSnapshot means that the domain was reverted to a snapshot in which it is paused.
	ReasonPausedFromSnapshot = "PausedFromSnapshot"
	// ReasonPausedIOError means that a disk of the domain could not be read or written. It is KubeVirt's word.
	ReasonPausedIOError = "PausedIOError"
	// ReasonPausedByWatchdog means that the watchdog of the domain expired.
	ReasonPausedByWatchdog = "PausedByWatchdog"
	// ReasonPausedCrashed means that the guest's kernel panicked.
	ReasonPausedCrashed = "PausedCrashed"
	// ReasonPausedStartingUp means that the domain is being started.
	ReasonPausedStartingUp = "PausedStartingUp"
	// ReasonPausedShuttingDown means that the domain is being shut down.
	ReasonPausedShuttingDown = "PausedShuttingDown"
	// ReasonSuspended means that the guest suspended itself to memory.
	ReasonSuspended = "Suspended"
)

// Reasons of Ready on VMs.
const (
	// ReasonVMINotExists means that the VMI of the VM does not exist. It is KubeVirt's word.
	ReasonVMINotExists = "VMINotExists"
	// ReasonGuestNotRunning means that the condition Ready of the VMI does not exist yet.
	ReasonGuestNotRunning = "GuestNotRunning"
)

// ReasonRestartRequired is the reason of condition RestartRequired on VMs: the VM was edited, and its VMI is as before. It is KubeVirt's word.
const ReasonRestartRequired = "RestartRequired"

// ConditionFieldsWithoutEffect is on VMs with fields that have no effect where Kiln runs their guests: in a pod, or on a bare machine. Its message names the
// first three of them. It is written when a VMI is created, and when a VM is edited while its VMI runs. A create or an update gets the same as warnings.
const ConditionFieldsWithoutEffect = "FieldsWithoutEffect"

// ConditionPinsLost is on VMs with annotation kilnvm.io/lost-pins: the VM uses the current objects in the place of the revisions that it was pinned to. Its
// status is True. If KubeVirt writes the conditions of VMs, an event with its reason takes its place.
const ConditionPinsLost = "PinsLost"

// ReasonRevisionMissing is the reason of ConditionPinsLost.
const ReasonRevisionMissing = "RevisionMissing"

// ConditionPlaceable is on VMs whose guests run in Kiln's pods. It says whether the cluster could run the guest, before anybody asks for a start: True, False
// with the cause and the remedy, or Unknown. It never keeps a VM from being admitted or started.
const ConditionPlaceable = "Placeable"

// Reasons of Placeable on VMs. ReasonFailedPvcNotFound, ReasonNotPlaceable and ReasonNotExplicit are reasons of False and Unknown, too.
const (
	// ReasonNodeFits means that a node has the labels, the devices and the size for the guest. What other pods use now is the scheduler's question.
	ReasonNodeFits = "NodeFits"
	// ReasonGuestRuns means that the guest runs on a node. An edit that waits for a restart is not judged before.
	ReasonGuestRuns = "GuestRuns"
	// ReasonNetworkNotFound means that a NetworkAttachmentDefinition does not exist.
	ReasonNetworkNotFound = "NetworkNotFound"
	// ReasonStorageClassNotFound means that a volume needs a StorageClass that does not exist.
	ReasonStorageClassNotFound = "StorageClassNotFound"
	// ReasonReferenceNotFound means that a Secret, a ConfigMap or a ServiceAccount does not exist.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonQuotaExceeded means that a ResourceQuota of the namespace leaves too little for the pod, or demands values that the pod lacks.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonOutsideLimitRange means that a LimitRange of the namespace forbids the size of the pod.
	ReasonOutsideLimitRange = "OutsideLimitRange"
	// ReasonForbiddenByPodSecurity means that the level of Pod Security of the namespace forbids the pod.
	ReasonForbiddenByPodSecurity = "ForbiddenByPodSecurity"
	// ReasonNoNode means that the cluster has no node.
	ReasonNoNode = "NoNode"
	// ReasonNoNodeMatches means that no node has the labels that the guest selects, or its architecture.
	ReasonNoNodeMatches = "NoNodeMatches"
	// ReasonNoNodeTolerated means that the guest does not tolerate a taint of each node that has the labels.
	ReasonNoNodeTolerated = "NoNodeTolerated"
	// ReasonNoNodeHasMachineType means that QEMU on each such node lacks machine.type of the guest.
	ReasonNoNodeHasMachineType = "NoNodeHasMachineType"
	// ReasonNoNodeHasCPU means that each such node that reports its CPU lacks a feature, the model or the vendor of the guest's CPU.
	ReasonNoNodeHasCPU = "NoNodeHasCPU"
	// ReasonNoNodeHasDevice means that no such node has the devices that the guest requests.
	ReasonNoNodeHasDevice = "NoNodeHasDevice"
	// ReasonNoNodeHasHugePages means that no such node has so many huge pages.
	ReasonNoNodeHasHugePages = "NoNodeHasHugePages"
	// ReasonNoNodeLargeEnough means that the pod is larger than each such node, even without other pods.
	ReasonNoNodeLargeEnough = "NoNodeLargeEnough"
	// ReasonNodesUnavailable is a reason of Unknown: each node for the guest is cordoned, not ready or under pressure, which may change.
	ReasonNodesUnavailable = "NodesUnavailable"
	// ReasonClaimAwaited is a reason of Unknown: a node fits, and a DataVolume of dataVolumeTemplates has not made its claim yet.
	ReasonClaimAwaited = "ClaimAwaited"
	// ReasonNotJudged is a reason of Unknown: another scheduler or the driver of a device decides.
	ReasonNotJudged = "NotJudged"
	// ReasonUnreadable is a reason of Unknown: the controller cannot read something. The message names it.
	ReasonUnreadable = "Unreadable"
)

// ConditionCPUOffered is on GuestHardware with a recorded CPU. It says whether the guest could start again with this CPU, also while it runs: features of CPUs
// vanish with another kernel, microcode or image of a node. It is absent while no agent reports the CPUs of the nodes that the guest may start on.
const ConditionCPUOffered = "CPUOffered"

// Reasons of CPUOffered on GuestHardware.
const (
	// ReasonEveryNodeOffers means that each node that the guest may start on offers the recorded CPU.
	ReasonEveryNodeOffers = "EveryNodeOffers"
	// ReasonSomeNodesLack is a reason of True: some of these nodes lack the recorded CPU. The message names what one of them lacks.
	ReasonSomeNodesLack = "SomeNodesLack"
	// ReasonNoNodeOffers is the reason of False: the guest cannot start again. The message names what is missing on the node that lacks the fewest features.
	ReasonNoNodeOffers = "NoNodeOffers"
)

// ConditionCPUFirstSeen is on GuestHardware of guests with host-model that had booted before Kiln recorded their CPU. Its status is True, and its message names
// the CPU that was seen first. It is no fault: later boots have this CPU. 'kubectl kiln repin --cpu' removes the condition.
const ConditionCPUFirstSeen = "CPUFirstSeen"

// Reasons of CPUFirstSeen on GuestHardware.
const (
	// ReasonBootedBefore means that no record says which CPU the guest had at its earlier boots.
	ReasonBootedBefore = "BootedBefore"
)

// Reasons of Failure on VMs, and of events on them. Except ReasonFailedPin, ReasonWouldBeRefused and the reasons about hardware they are words of KubeVirt or
// Kubernetes.
const (
	// ReasonCrashLoopBackOff means that guests of the VM have ended soon after their start, and that the next one waits.
	ReasonCrashLoopBackOff = "CrashLoopBackOff"
	// ReasonFailedCreate means that the VMI could not be created. On a VMI it is a reason of Synchronized: its pod could not be created.
	ReasonFailedCreate = "FailedCreate"
	// ReasonFailedDelete means that the VMI could not be deleted.
	ReasonFailedDelete = "FailedDelete"
	// ReasonFailedFindInstancetype means that spec.instancetype refers to nothing.
	ReasonFailedFindInstancetype = "FailedFindInstancetype"
	// ReasonFailedFindPreference means that spec.preference refers to nothing.
	ReasonFailedFindPreference = "FailedFindPreference"
	// ReasonFailedPin means that a ControllerRevision could not be found or written.
	ReasonFailedPin = "FailedPin"
	// ReasonWouldBeRefused is the reason of the event on a VM that KubeVirt runs and that admission would refuse. AnnotationRefused is on the VM.
	ReasonWouldBeRefused = "WouldBeRefused"
	// ReasonFailedDataVolumeCreate means that a DataVolume of spec.dataVolumeTemplates cannot be made.
	ReasonFailedDataVolumeCreate = "FailedDataVolumeCreate"
	// ReasonUnauthorizedDataVolumeCreate means that the ServiceAccount of the VM may not clone the source of a DataVolume.
	ReasonUnauthorizedDataVolumeCreate = "UnauthorizedDataVolumeCreate"
	// ReasonSuccessfulDataVolumeCreate is the reason of the event after a DataVolume was created.
	ReasonSuccessfulDataVolumeCreate = "SuccessfulDataVolumeCreate"
	// ReasonSuccessfulCreate is the reason of the event after a VMI was created.
	ReasonSuccessfulCreate = "SuccessfulCreate"
	// ReasonSuccessfulDelete is the reason of the event after a VMI was deleted.
	ReasonSuccessfulDelete = "SuccessfulDelete"
	// ReasonHardwareForeign means that the GuestHardware with the VM's name belongs to another VM or VMI. It is also a reason of Synchronized on VMIs.
	ReasonHardwareForeign = "HardwareForeign"
	// ReasonNoEffect is the reason of ConditionFieldsWithoutEffect, and of the event about fields of a VMI that have no effect where its guest runs: in a pod,
	// or on a bare machine.
	ReasonNoEffect = "NoEffect"
	// ReasonHardwareChanged is the reason of the event after a boot whose hardware differs from the hardware record.
	ReasonHardwareChanged = "HardwareChanged"
)
