package v1alpha1

// ConditionHardwareChanged is on VirtualMachineRestores that left out devices that can no longer be attached. Its message lists the devices.
const ConditionHardwareChanged = "HardwareChanged"

// ConditionQuiesced is on VirtualMachineSnapshots of guests that run. It is True if the guest agent had frozen the file systems while the volumes were cut.
const ConditionQuiesced = "Quiesced"

// Reasons of ConditionQuiesced, and of events on snapshots.
const (
	// ReasonFreezing means that the guest agent is asked to freeze the file systems.
	ReasonFreezing = "Freezing"
	// ReasonFrozen means that the file systems are frozen until the volumes are cut.
	ReasonFrozen = "Frozen"
	// ReasonThawed means that the file systems were frozen until the volumes were cut, and are thawed.
	ReasonThawed = "Thawed"
	// ReasonNoGuestAgent means that no guest agent answers. It is KubeVirt's word for such snapshots.
	ReasonNoGuestAgent = "NoGuestAgent"
	// ReasonFreezeFailed means that the guest agent has refused, or has not answered in time.
	ReasonFreezeFailed = "FreezeFailed"
	// ReasonQuiesceTimeout means that the freeze ended before all volumes were cut. It is KubeVirt's word.
	ReasonQuiesceTimeout = "QuiesceTimeout"
	// ReasonThawFailed means that the guest did not thaw at the request. Its launcher thaws it when the longest duration of a freeze is over.
	ReasonThawFailed = "ThawFailed"
)

// Reasons of Ready, Progressing and Failure on snapshots, restores and clones, and of events on them.
// ReasonDeadlineExceeded and ReasonHardwareChanged are such reasons, too.
const (
	// ReasonInProgress means that the controller is at work.
	ReasonInProgress = "InProgress"
	// ReasonCompleted means that all is done.
	ReasonCompleted = "Completed"
	// ReasonMalformed means that the spec of the object is invalid. Admission refuses such objects.
	ReasonMalformed = "Malformed"
	// ReasonSourceMissing means that the VM, or the snapshot, does not exist.
	ReasonSourceMissing = "SourceMissing"
	// ReasonSourceBusy means that another snapshot or restore works on the VM.
	ReasonSourceBusy = "SourceBusy"
	// ReasonNotSnapshottable means that no snapshot can include a part of the VM.
	ReasonNotSnapshottable = "NotSnapshottable"
	// ReasonVolumeSnapshots means that VolumeSnapshots are not ready, or are missing.
	ReasonVolumeSnapshots = "VolumeSnapshots"
	// ReasonContentCreated is the reason of the event after a content was created. It is KubeVirt's word.
	ReasonContentCreated = "SuccessfulVirtualMachineSnapshotContentCreate"
	// ReasonSnapshotNotReady means that the snapshot of a restore is not ready to use.
	ReasonSnapshotNotReady = "SnapshotNotReady"
	// ReasonTargetNotReady means that a VMI of the restore's VM exists. It is KubeVirt's word.
	ReasonTargetNotReady = "RestoreTargetNotReady"
	// ReasonTargetExists means that the target of a restore exists, and is another VM than the VM of the snapshot.
	ReasonTargetExists = "TargetExists"
	// ReasonNotActivatable means that the VM in a snapshot cannot be restored. The message lists every cause.
	ReasonNotActivatable = "NotActivatable"
	// ReasonNotAdmitted means that admission or a quota refuses the VM of a restore, or another object that a snapshot, a restore or a clone makes.
	ReasonNotAdmitted = "NotAdmitted"
	// ReasonVolumesPending means that restored claims are not bound yet.
	ReasonVolumesPending = "VolumesPending"
	// ReasonRestoreComplete is the reason of the event after a restore. It is KubeVirt's word.
	ReasonRestoreComplete = "VirtualMachineRestoreComplete"
)
