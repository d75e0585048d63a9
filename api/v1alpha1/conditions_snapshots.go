package v1alpha1

// ConditionHardwareChanged is on VirtualMachineRestores that left out what can no longer be attached. Its message names the devices.
const ConditionHardwareChanged = "HardwareChanged"

// ConditionQuiesced is on VirtualMachineSnapshots of guests that run. It is True if the guest agent had frozen the file systems while the volumes were cut.
const ConditionQuiesced = "Quiesced"

// Reasons of ConditionQuiesced, and of events on snapshots.
const (
	// ReasonFreezing means that the guest agent is asked to freeze the file systems.
	ReasonFreezing = "Freezing"
	// ReasonFrozen means that they are frozen, until the volumes are cut.
	ReasonFrozen = "Frozen"
	// ReasonThawed means that they were frozen until then.
	ReasonThawed = "Thawed"
	// ReasonNoGuestAgent means that nobody can be asked. It is KubeVirt's word for such snapshots.
	ReasonNoGuestAgent = "NoGuestAgent"
	// ReasonFreezeFailed means that the guest agent has refused, or has not answered in time.
	ReasonFreezeFailed = "FreezeFailed"
	// ReasonQuiesceTimeout means that the freeze ended before all volumes were cut. It is KubeVirt's word.
	ReasonQuiesceTimeout = "QuiesceTimeout"
	// ReasonThawFailed means that the guest did not thaw when it was asked. Its launcher thaws it when the freeze may last no longer.
	ReasonThawFailed = "ThawFailed"
)

// Reasons of Ready, Progressing and Failure on snapshots, restores and clones, and of events on them.
// ReasonDeadlineExceeded and ReasonHardwareChanged are reasons too.
const (
	// ReasonInProgress means that the controller is at work.
	ReasonInProgress = "InProgress"
	// ReasonCompleted means that all is done.
	ReasonCompleted = "Completed"
	// ReasonMalformed means that the object says what cannot be done. Admission refuses such objects.
	ReasonMalformed = "Malformed"
	// ReasonSourceMissing means that the VM, or the snapshot, does not exist.
	ReasonSourceMissing = "SourceMissing"
	// ReasonSourceBusy means that another snapshot or restore works on the VM.
	ReasonSourceBusy = "SourceBusy"
	// ReasonNotSnapshottable means that the VM has what no snapshot holds.
	ReasonNotSnapshottable = "NotSnapshottable"
	// ReasonVolumeSnapshots means that VolumeSnapshots are not ready, or are missing.
	ReasonVolumeSnapshots = "VolumeSnapshots"
	// ReasonContentCreated is of the event after a content was created. It is KubeVirt's word.
	ReasonContentCreated = "SuccessfulVirtualMachineSnapshotContentCreate"
	// ReasonSnapshotNotReady means that the snapshot of a restore is not ready to use.
	ReasonSnapshotNotReady = "SnapshotNotReady"
	// ReasonTargetNotReady means that the VM of a restore has a VMI. It is KubeVirt's word.
	ReasonTargetNotReady = "RestoreTargetNotReady"
	// ReasonTargetExists means that the target of a restore is another VM than that of the snapshot.
	ReasonTargetExists = "TargetExists"
	// ReasonNotActivatable means that the configuration of a snapshot may not be activated again. The message has every cause.
	ReasonNotActivatable = "NotActivatable"
	// ReasonNotAdmitted means that admission or a quota refuses the VM of a restore, or another object that a snapshot, a restore or a clone makes.
	ReasonNotAdmitted = "NotAdmitted"
	// ReasonVolumesPending means that restored claims are not bound yet.
	ReasonVolumesPending = "VolumesPending"
	// ReasonRestoreComplete is of the event after a restore. It is KubeVirt's word.
	ReasonRestoreComplete = "VirtualMachineRestoreComplete"
)
