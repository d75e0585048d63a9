package v1alpha1

// Condition types and reasons that Kiln writes on VMs and VMIs. Types of kubevirt.io (Ready, Paused, Synchronized, Failure) keep
// their meaning. Those of Kiln's own kinds stand with the kinds.

// ConditionHostPolicyChanged is on VMIs whose HostProfiles have changed since the start of their domain.
const ConditionHostPolicyChanged = "HostPolicyChanged"

// Reasons of ConditionHostPolicyChanged.
const (
	// ReasonNextStart means that the next start applies the change.
	ReasonNextStart = "NextStart"
	// ReasonRefused means that the HostProfiles cannot be merged, so that the next start would be refused.
	ReasonRefused = "Refused"
)

// Reasons of Synchronized on VMIs: why a VMI does not run on the node that claimed it.
const (
	// ReasonStarted means that the domain runs as the spec says.
	ReasonStarted = "Started"
	// ReasonNotExplicit means that the spec has not been through admission.
	ReasonNotExplicit = "NotExplicit"
	// ReasonNotBindable means that the node lacks a volume, network or device of the VMI.
	ReasonNotBindable = "NotBindable"
	// ReasonNotRenderable means that no legal domain exists for the spec on this node.
	ReasonNotRenderable = "NotRenderable"
	// ReasonStartFailed means that libvirt refused to start the domain. It is also a reason of Ready.
	ReasonStartFailed = "StartFailed"
	// ReasonNotRecordable means that the hardware record could not be saved before the first start.
	ReasonNotRecordable = "NotRecordable"
	// ReasonNameTaken means that another owner's domain (on a VMI) or VMI (on a VM) has the name.
	ReasonNameTaken = "NameTaken"
	// ReasonUUIDTaken means that another owner's domain has the firmware UUID.
	ReasonUUIDTaken = "UUIDTaken"
)

// Reasons of Ready on VMs.
const (
	// ReasonVMINotExists means that the VM has no VMI. It is KubeVirt's word.
	ReasonVMINotExists = "VMINotExists"
	// ReasonGuestNotRunning means that the VMI has no Ready condition yet.
	ReasonGuestNotRunning = "GuestNotRunning"
)

// Reasons of Failure on VMs, and of events on them. All but ReasonFailedPin and the last two are KubeVirt's words.
const (
	// ReasonFailedCreate means that the VMI could not be created.
	ReasonFailedCreate = "FailedCreate"
	// ReasonFailedDelete means that the VMI could not be deleted.
	ReasonFailedDelete = "FailedDelete"
	// ReasonFailedFindInstancetype means that spec.instancetype refers to nothing.
	ReasonFailedFindInstancetype = "FailedFindInstancetype"
	// ReasonFailedFindPreference means that spec.preference refers to nothing.
	ReasonFailedFindPreference = "FailedFindPreference"
	// ReasonFailedPin means that a ControllerRevision could not be found or written.
	ReasonFailedPin = "FailedPin"
	// ReasonSuccessfulCreate is of the event after a VMI was created.
	ReasonSuccessfulCreate = "SuccessfulCreate"
	// ReasonSuccessfulDelete is of the event after a VMI was deleted.
	ReasonSuccessfulDelete = "SuccessfulDelete"
	// ReasonHardwareNotRecorded is of the event after a hardware record was refused.
	ReasonHardwareNotRecorded = "HardwareNotRecorded"
	// ReasonHardwareChanged is of the event after a boot whose hardware differs from the record.
	ReasonHardwareChanged = "HardwareChanged"
)
