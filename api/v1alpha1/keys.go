package v1alpha1

// Prefix is the prefix of every annotation and label of Kiln.
const Prefix = "kilnvm.io/"

// Annotations. Their values may come from a tenant: readers parse them as hostile input.
const (
	// AnnotationPins is on VMs and VMIs. Its value is a Pins object as JSON.
	AnnotationPins = Prefix + "pins"
	// AnnotationLostPins is on VMs that were created with pins to revisions that their namespace does not contain, such as VMs of a backup without
	// ControllerRevisions. Its value lists these revisions. The owner of the VM removes the annotation.
	AnnotationLostPins = Prefix + "lost-pins"
	// AnnotationIdentity is on VMs and VMIs. Its value is the seed of the firmware UUID, the serial number and the MAC addresses.
	AnnotationIdentity = Prefix + "identity"
	// AnnotationGeneration is on VMs and VMIs. The owner of a VM writes any text, and another text after restoring older disks, which no
	// API field reports. On a VMI it is the text from which the VM Generation ID is derived.
	AnnotationGeneration = Prefix + "generation"
	// AnnotationHardware is on VMs and VMIs. With the value HardwareLatest, Kiln derives the hardware anew at each boot.
	AnnotationHardware = Prefix + "hardware"
	// AnnotationFrontend is on VMIs that KubeVirt runs. Its value is the HardwareRecord of their VM as JSON. Kiln's hook sidecar puts this hardware back into the
	// domain. The value FrontendNew requests the first record. The owner of a VM writes it on the VM if the guest has not run yet, or may find other hardware.
	AnnotationFrontend = Prefix + "frontend"
	// AnnotationHardwareFailure is on VMIs that KubeVirt runs, and in spec.template of VMs. It decides whether Kiln's hook sidecar starts a guest whose recorded
	// hardware cannot be put back: HardwareFailureFail, which is the default, or HardwareFailureIgnore.
	AnnotationHardwareFailure = Prefix + "hardware-failure"
	// AnnotationInterfaceAddresses is on VMIs that KubeVirt starts without Kiln's hook sidecar. Its value lists the interfaces that keep their recorded PCI
	// addresses until the guest runs, with commas between them.
	AnnotationInterfaceAddresses = Prefix + "interface-addresses"
	// AnnotationRefused is on VMs that KubeVirt runs and that admission would refuse, such as VMs that were written while the webhook did not answer. Its value is
	// the reason. Kiln's controller writes the annotation, and removes it when the VM would be admitted.
	AnnotationRefused = Prefix + "refused"
	// AnnotationExcepted is on VMs that violate a GuestPolicy with a GuestPolicyException. Its value names the policies, the exceptions and their ends. Kiln's
	// controller writes the annotation, and removes it when the VM needs no exception any more. Nothing reads it.
	AnnotationExcepted = Prefix + "excepted"
	// AnnotationRollout is on VMs. With the value RolloutRestart an edit of a VM whose VMI exists is followed by a restart.
	AnnotationRollout = Prefix + "rollout"
	// AnnotationTemplateDigest is on VMIs that a VM made. Its value is the digest of the VM's template and pins. A restart of a VM with the same template and
	// pins changes nothing.
	AnnotationTemplateDigest = Prefix + "template-digest"
	// AnnotationEjected is on VMIs. Its value lists, as JSON, the volumes that were taken out of CD-ROM drives while the guest runs. The pod keeps these volumes,
	// because they can be put in again.
	AnnotationEjected = Prefix + "ejected"
	// AnnotationArchitecture is on VMs and VMIs. Its value is the architecture of the images of a VMI without spec.architecture.
	AnnotationArchitecture = Prefix + "architecture"
	// AnnotationNUMACells is on VMIs, and in spec.template of VMs and spec.annotations of instancetypes. Its value is the number of
	// NUMA nodes of the VMI, which are independent of the NUMA nodes of the host.
	AnnotationNUMACells = Prefix + "numa-cells"
	// AnnotationProfileLabels is on VMIs. Its value lists the keys of the labels that profiles filled, sorted, with commas between them. These labels do not
	// select profiles, because the same profiles must fill a VMI that admission sees again.
	AnnotationProfileLabels = Prefix + "profile-labels"
	// AnnotationInference is on VMs. It lists the volume sources that admission was allowed to read for inferFromVolume.
	AnnotationInference = Prefix + "inference"
	// AnnotationTPMKey is on the claims for EFI variables and TPM state that Kiln makes. Its value is the name of the Secret with the key of the TPM's state.
	// Without the annotation the state is not encrypted.
	AnnotationTPMKey = Prefix + "tpm-key"
	// AnnotationUnusedSince is on ControllerRevisions. Its value is the RFC 3339 time at which the collector first saw no reference.
	AnnotationUnusedSince = Prefix + "unused-since"
	// AnnotationReplacedBy is on instancetypes and preferences. Its value is the name of the object of the same kind and namespace that new VMs should use
	// instead.
	AnnotationReplacedBy = Prefix + "replaced-by"
	// AnnotationObsoleteAfter is on instancetypes and preferences. Its value is the RFC 3339 time from which the object is obsolete. Until then it
	// is deprecated.
	AnnotationObsoleteAfter = Prefix + "obsolete-after"
	// AnnotationCatalogVersion is on instancetypes and preferences that 'kubectl kiln catalog install' wrote. Its value is the version and the digest
	// of the last catalog with the object, such as '1.0.0@sha256:...', or only the digest for a catalog of files.
	AnnotationCatalogVersion = Prefix + "catalog-version"
	// AnnotationRecord is on VirtualMachineSnapshotContents. Its value is the name of the ControllerRevision with the hardware record of the VM. Without the
	// annotation the VM had no hardware record. On a VM that is being restored, the value is the name of the hardware record that the VM needs before it may
	// start; empty means no hardware record.
	AnnotationRecord = Prefix + "record"
	// AnnotationSnapshotState is on VirtualMachineSnapshotContents. Its value is SnapshotInactive or SnapshotRunning.
	AnnotationSnapshotState = Prefix + "snapshot-state"
	// AnnotationLeaveOut is on VirtualMachineRestores. With the value LeaveOutUnavailable the VM is restored without the devices that can no longer be
	// attached.
	AnnotationLeaveOut = Prefix + "leave-out-unavailable"
	// AnnotationAsker is on VirtualMachineRestores and VirtualMachineClones. Its value is the UserInfo, as JSON, of the account that created the object.
	// Only admission writes it. The VM is restored with the rights of this account.
	AnnotationAsker = Prefix + "asker"
	// AnnotationRemounted is on pods of Kiln's webhook, controller and API server of subresources that wait for a Secret. Its value is the RFC 3339 time at
	// which the controller last made kubelet look for the Secret.
	AnnotationRemounted = Prefix + "remounted"
	// AnnotationCatalogSource is on instancetypes and preferences that were installed from a registry. Its value is the repository, such as
	// 'oci://registry.example.org/catalogs/general'.
	AnnotationCatalogSource = Prefix + "catalog-source"
	// AnnotationCatalogTakenOver is on instancetypes and preferences that existed before 'kubectl kiln catalog install --force' took them over. Its value is
	// 'true'. The removal of the catalog releases them, and neither deletes them nor makes them obsolete.
	AnnotationCatalogTakenOver = Prefix + "catalog-taken-over"
)

// Labels of instancetypes and preferences. They are labels because labels can list the objects of a catalog.
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

// Values of LabelLifecycle. Kiln's webhook checks only new VMs for them.
const (
	// LifecycleActive is the value of an object that VMs may use. It is the default without LabelLifecycle.
	LifecycleActive = "active"
	// LifecycleDeprecated is the value of an object that new VMs may use with a warning.
	LifecycleDeprecated = "deprecated"
	// LifecycleObsolete is the value of an object that new VMs must not use.
	LifecycleObsolete = "obsolete"
)

// LabelAdmission is on namespaces of a cluster in which KubeVirt runs the guests. Its value is AdmissionEnabled, AdmissionWarn or AdmissionDisabled. Any other
// value has no effect.
const LabelAdmission = Prefix + "admission"

// Values of LabelAdmission.
const (
	// AdmissionEnabled is the value of a namespace whose objects are refused if they break a rule, even if the webhook's flag --enforcement is Warn.
	AdmissionEnabled = "enabled"
	// AdmissionWarn is the value of a namespace in which admission warns, and does not refuse objects of KubeVirt's kinds.
	AdmissionWarn = "warn"
	// AdmissionDisabled is the value of a namespace that Kiln leaves alone. Webhooks and policies ignore its objects, and the controller does not write there.
	AdmissionDisabled = "disabled"
)

// LabelUninstall is on objects that an uninstall keeps: definitions, and the objects that the launchers of running guests need. Its value is 'keep'. While Kiln
// is installed, a policy refuses to delete these objects.
const LabelUninstall = Prefix + "uninstall"

// LabelKeepWhileUsed is on instancetypes, preferences, GuestProfiles, ClusterGuestProfiles and GuestPolicies. With the value 'true' admission refuses to delete
// the object while VMs use it.
const LabelKeepWhileUsed = Prefix + "keep-while-used"

// FinalizerGuestPod is on the pods of guests. Kiln's controller removes it when the pod has ended, or when the node of the pod is tainted
// node.kubernetes.io/out-of-service. Until then other pods must not start the guest, even after 'kubectl delete pod --force'.
const FinalizerGuestPod = Prefix + "guest-pod"

// LabelPasst is on nodes whose kubelet contains the seccomp profile SeccompLauncher. Its value is 'true'. Pods of guests whose network uses passt select this
// label.
const LabelPasst = Prefix + "passt"

// LabelKVM is on nodes whose /dev/kvm the pods of guests can use. Its value is 'true'. The DaemonSet of 'launcher cpu' selects it.
const LabelKVM = Prefix + "kvm"

// Labels of nodes on which 'launcher cpu' runs, each with the value 'true'. They are as KubeVirt's labels cpu-feature.node.kubevirt.io/ and its siblings, for
// the QEMU of the launcher's image. Pods of guests select them.
const (
	// LabelCPUFeature is followed by the name of a feature of host-model. A node has a label for each of these features.
	LabelCPUFeature = "cpu-feature.kilnvm.io/"
	// LabelCPUModel is followed by the name of a CPU model of which the node lacks no feature.
	LabelCPUModel = "cpu-model.kilnvm.io/"
	// LabelCPUVendor is followed by the vendor of host-model.
	LabelCPUVendor = "cpu-vendor.kilnvm.io/"
)

// LabelCPUEmulated is on nodes whose labels of CPUs are about guests without KVM. Its value is 'true'. The labels count only in a cluster whose guests run so,
// too.
const LabelCPUEmulated = Prefix + "cpu-emulated"

// AnnotationCPUFailure is on nodes whose CPU 'launcher cpu' could not read. Its value is the reason. Condition KilnGuests contains it.
const AnnotationCPUFailure = Prefix + "cpu-failure"

// AnnotationMachineTypes is on nodes on which 'launcher devices' runs. Its value is the machine types of QEMU in the launcher's image, separated by commas.
// Condition Placeable of VMs compares machine.type of guests with it.
const AnnotationMachineTypes = Prefix + "machine-types"

// SeccompLauncher is the localhostProfile of pods whose launcher runs passt. It allows the system calls of the container runtime's profile, and the calls with
// which passt creates its namespaces.
const SeccompLauncher = "kiln/launcher.json"

// Values of AnnotationSnapshotState.
const (
	// SnapshotInactive is the value of a snapshot of a VM that did not run. The snapshot contains the hardware record of the last boot.
	SnapshotInactive = "inactive"
	// SnapshotRunning is the value of a snapshot of a VM that ran. The snapshot contains the hardware record with which the guest was started.
	SnapshotRunning = "running"
)

// LeaveOutUnavailable is the value of AnnotationLeaveOut with which devices that can no longer be attached are left out.
const LeaveOutUnavailable = "true"

// RolloutRestart is the value of AnnotationRollout with which edits are applied by a restart.
const RolloutRestart = "restart"

// FrontendNew is the value of AnnotationFrontend for a guest without a hardware record: an empty record.
const FrontendNew = "{}"

// Values of AnnotationHardwareFailure.
const (
	// HardwareFailureFail means that the guest does not start.
	HardwareFailureFail = "Fail"
	// HardwareFailureIgnore means that the guest starts with the hardware that KubeVirt and libvirt choose.
	HardwareFailureIgnore = "Ignore"
)

// HardwareLatest is the value of AnnotationHardware that opts out of recorded hardware.
const HardwareLatest = "latest"
