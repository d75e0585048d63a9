package v1alpha1

// Prefix of every annotation that Kiln owns.
const Prefix = "kilnvm.io/"

// Annotations. Their values may come from a tenant: readers parse them as hostile input.
const (
	// AnnotationPins is on VMs and VMIs. Its value is a Pins object as JSON.
	AnnotationPins = Prefix + "pins"
	// AnnotationIdentity is on VMs and VMIs. Its value is the seed of the firmware UUID, the serial number and the MAC addresses.
	AnnotationIdentity = Prefix + "identity"
	// AnnotationGeneration is on VMs and VMIs. On a VM its owner writes any text, and another text after restoring older disks, which no
	// API field reports. On a VMI it is the VM Generation ID that the controller derives from that text.
	AnnotationGeneration = Prefix + "generation"
	// AnnotationHardware is on VMs and VMIs. The value HardwareLatest asks for hardware that is derived anew at each boot.
	AnnotationHardware = Prefix + "hardware"
	// AnnotationFrontend is on VMIs that KubeVirt runs. Its value is the HardwareRecord of their VM as JSON, which Kiln's hook puts back into the domain. The
	// value FrontendNew asks for the first record. The owner of a VM whose guest has not run yet, or may find other hardware, writes it on the VM.
	AnnotationFrontend = Prefix + "frontend"
	// AnnotationHardwareFailure is on VMIs that KubeVirt runs, and in spec.template of VMs. Its value says what Kiln's hook does with a guest whose recorded
	// hardware cannot be put back: HardwareFailureFail, which is meant without it, or HardwareFailureIgnore.
	AnnotationHardwareFailure = Prefix + "hardware-failure"
	// AnnotationInterfaceAddresses is on VMs that KubeVirt runs. The value InterfaceAddressesRecorded asks that virtio interfaces have their recorded PCI
	// addresses also where Kiln's hook is not available.
	AnnotationInterfaceAddresses = Prefix + "interface-addresses"
	// AnnotationRollout is on VMs. The value RolloutRestart asks that an edit of a VM whose VMI exists is followed by a restart.
	AnnotationRollout = Prefix + "rollout"
	// AnnotationTemplateDigest is on VMIs that a VM made. Its value is the digest of what the VM asked for: template and pins. A restart of a VM that asks for
	// the same changes nothing.
	AnnotationTemplateDigest = Prefix + "template-digest"
	// AnnotationEjected is on VMIs. Its value is the volumes, as JSON, that were taken out of CD-ROM drives while the guest runs, and that its pod still has:
	// they can be put in again.
	AnnotationEjected = Prefix + "ejected"
	// AnnotationArchitecture is on VMs and VMIs. Its value is the architecture of the images of a VMI that has no spec.architecture.
	AnnotationArchitecture = Prefix + "architecture"
	// AnnotationNUMACells is on VMIs, and in spec.template of VMs and spec.annotations of instancetypes. Its value is the number of
	// NUMA nodes of the VMI, which are independent of those of the host.
	AnnotationNUMACells = Prefix + "numa-cells"
	// AnnotationProfileLabels is on VMIs. Its value is the keys of the labels that profiles filled, sorted, with commas between them. They select no
	// profiles: a VMI that admission sees again is filled by the same profiles.
	AnnotationProfileLabels = Prefix + "profile-labels"
	// AnnotationInference is on VMs. It records which volume sources admission was allowed to read for inferFromVolume.
	AnnotationInference = Prefix + "inference"
	// AnnotationTPMKey is on the claims for EFI variables and TPM state that Kiln makes. Its value is the name of the Secret with the key of the TPM's
	// state. Without it the state is not encrypted.
	AnnotationTPMKey = Prefix + "tpm-key"
	// AnnotationUnusedSince is on ControllerRevisions. Its value is the RFC 3339 time at which the collector first saw no reference.
	AnnotationUnusedSince = Prefix + "unused-since"
	// AnnotationReplacedBy is on instancetypes and preferences. Its value is the name of the object of the same kind and namespace that new VMs are
	// to use instead.
	AnnotationReplacedBy = Prefix + "replaced-by"
	// AnnotationObsoleteAfter is on instancetypes and preferences. Its value is the RFC 3339 time from which on the object is obsolete. Until then it
	// is deprecated.
	AnnotationObsoleteAfter = Prefix + "obsolete-after"
	// AnnotationCatalogVersion is on instancetypes and preferences that 'kubectl kiln catalog install' wrote. Its value is the version and the digest
	// of the catalog that had the object last, such as '1.0.0@sha256:...', or the digest alone for a catalog of files.
	AnnotationCatalogVersion = Prefix + "catalog-version"
	// AnnotationRecord is on VirtualMachineSnapshotContents. Its value is the name of the ControllerRevision that holds the hardware record of the VM. Without
	// it the VM had none. On a VM that is being restored it names the record that the VM is to have before it may start; empty for none.
	AnnotationRecord = Prefix + "record"
	// AnnotationSnapshotState is on VirtualMachineSnapshotContents. Its value is SnapshotInactive or SnapshotRunning.
	AnnotationSnapshotState = Prefix + "snapshot-state"
	// AnnotationLeaveOut is on VirtualMachineRestores. The value LeaveOutUnavailable asks that the VM is restored without the devices that can no longer be
	// attached.
	AnnotationLeaveOut = Prefix + "leave-out-unavailable"
	// AnnotationAsker is on VirtualMachineRestores and VirtualMachineClones. Its value is the UserInfo, as JSON, of the account that created the object.
	// Admission alone writes it. The VM is restored with the rights of this account.
	AnnotationAsker = Prefix + "asker"
	// AnnotationRemounted is on pods of Kiln's webhook, controller and API server of subresources that wait for a Secret. Its value is the RFC 3339 time at
	// which the controller last had kubelet look for it.
	AnnotationRemounted = Prefix + "remounted"
	// AnnotationCatalogSource is on instancetypes and preferences that were installed from a registry. Its value is the repository, such as
	// 'oci://registry.example.org/catalogs/general'.
	AnnotationCatalogSource = Prefix + "catalog-source"
	// AnnotationCatalogTakenOver is on instancetypes and preferences that existed before 'kubectl kiln catalog install --force' took them over. Its value is
	// 'true'. The removal of the catalog releases them, and neither deletes them nor makes them obsolete.
	AnnotationCatalogTakenOver = Prefix + "catalog-taken-over"
)

// Labels of instancetypes and preferences. They are labels because catalogs are listed by them.
const (
	// LabelLifecycle is on instancetypes and preferences. Its value is LifecycleActive, LifecycleDeprecated or LifecycleObsolete.
	LabelLifecycle = Prefix + "lifecycle"
	// LabelDeprecated is on instancetypes and preferences. Its value 'true' means LifecycleDeprecated. It is KubeVirt's key, which the published
	// catalog documents.
	LabelDeprecated = "instancetype.kubevirt.io/deprecated"
	// LabelCatalog is on instancetypes and preferences that 'kubectl kiln catalog install' wrote. Its value is the name of the catalog that they
	// belong to.
	LabelCatalog = Prefix + "catalog"
)

// Values of LabelLifecycle. Kiln's webhook judges new VMs by them, and leaves VMs alone that exist.
const (
	// LifecycleActive is the value of an object that VMs may use. It is meant where LabelLifecycle is absent.
	LifecycleActive = "active"
	// LifecycleDeprecated is the value of an object that new VMs may use with a warning.
	LifecycleDeprecated = "deprecated"
	// LifecycleObsolete is the value of an object that no new VM may use.
	LifecycleObsolete = "obsolete"
)

// LabelUninstall is on what an uninstall leaves: definitions, and what the launchers of running guests need. Its value is 'keep'. While Kiln is
// installed, a policy refuses to delete these objects.
const LabelUninstall = Prefix + "uninstall"

// FinalizerGuestPod is on the pods of guests. Kiln's controller removes it when the pod has ended, or when the node of the pod is tainted
// node.kubernetes.io/out-of-service: until then no other pod may start the guest, even after 'kubectl delete pod --force'.
const FinalizerGuestPod = Prefix + "guest-pod"

// LabelPasst is on nodes whose kubelet has the seccomp profile SeccompLauncher. Its value is 'true'. Pods of guests whose network is served by passt
// select it.
const LabelPasst = Prefix + "passt"

// SeccompLauncher is the localhostProfile of pods whose launcher runs passt: the profile of the container runtime, and the calls by which passt makes
// namespaces of its own.
const SeccompLauncher = "kiln/launcher.json"

// Values of AnnotationSnapshotState.
const (
	// SnapshotInactive is the value of a snapshot of a VM that did not run: the record is that of its last boot.
	SnapshotInactive = "inactive"
	// SnapshotRunning is the value of a snapshot of a VM that ran: the record is what its guest was started with.
	SnapshotRunning = "running"
)

// LeaveOutUnavailable is the value of AnnotationLeaveOut that has devices left out.
const LeaveOutUnavailable = "true"

// RolloutRestart is the value of AnnotationRollout that has edits applied by a restart.
const RolloutRestart = "restart"

// FrontendNew is the value of AnnotationFrontend of a guest that has no record yet: a record without anything.
const FrontendNew = "{}"

// Values of AnnotationHardwareFailure.
const (
	// HardwareFailureFail is the value that has the guest not start.
	HardwareFailureFail = "Fail"
	// HardwareFailureIgnore is the value that has the guest start with the hardware that KubeVirt and libvirt choose.
	HardwareFailureIgnore = "Ignore"
)

// InterfaceAddressesRecorded is the value of AnnotationInterfaceAddresses that has pciAddress of interfaces filled.
const InterfaceAddressesRecorded = "recorded"

// HardwareLatest is the value of AnnotationHardware that opts out of recorded hardware.
const HardwareLatest = "latest"
