package startcheck

import (
	"regexp"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// matchText compiles an expression that is found in a message. Messages of the scheduler, of kubelet and of container runtimes have no codes.
func matchText(expression string) *regexp.Regexp { return regexp.MustCompile("(?i)" + expression) }

// What the scheduler says of nodes. Its message counts them: '0/3 nodes are available: 1 Insufficient memory, 2 node(s) had untolerated taint {a: b}'.
const (
	noFreeResources = `insufficient (memory|hugepages|cpu|ephemeral-storage)|too many pods`
	noKVM           = `insufficient devices\.kubevirt\.io/kvm`
	noDevice        = `insufficient [a-z0-9.-]+/|cannot allocate all claims|resourceclaim`
	noMatch         = `didn'?t match pod'?s node affinity|node selector|didn'?t match node selector`
	tainted         = `untolerated taint|were unschedulable|taints? that the pod`
	volumeNode      = `volume node affinity conflict|max volume count|no available persistent volumes`
	antiPods        = `anti-affinity|topology spread|pod affinity`
)

const remedyKVM = "Add nodes with hardware virtualization, and check that virt-handler or Kiln's devices run on them."

// causes is the table of known causes. The first entry that fits counts: an entry with a message stands before the entry of the same reason without one.
var causes = []cause{
	// admitted
	{name: "refused", steps: []string{stepAdmitted}, because: "Kiln would refuse the VM: {message}",
		remedy: "Correct the fields that the message names: 'kubectl kiln validate -n {namespace} vm/{vm}' lists all mistakes.", by: Owner},

	// pinned
	{name: "reference missing", steps: []string{stepPinned},
		reasons: []string{reasonReferenceMissing, v1alpha1.ReasonFailedFindInstancetype, v1alpha1.ReasonFailedFindPreference},
		because: "the VM refers to something that does not exist: {message}",
		remedy:  "Create it, or name another one in spec.instancetype or spec.preference: 'kubectl kiln instancetypes' and 'kubectl kiln preferences' list them.",
		by:      OwnerOrAdmin},
	{name: "revision missing", steps: []string{stepPinned}, reasons: []string{reasonRevisionMissing, v1alpha1.ReasonFailedPin},
		because: "a revision of the VM cannot be found or made: {message}",
		remedy:  "Restore the ControllerRevision from a backup, or take the current objects: 'kubectl kiln repin -n {namespace} vm/{vm}'.", by: Owner},

	// guest requested
	{name: "halted", reasons: []string{reasonHalted}, sentence: "No guest is requested, because the run strategy of the VM is Halted",
		remedy: "Start the VM: 'kubectl kiln start -n {namespace} {vm}'.", by: Owner, asRequested: true},
	{name: "not started", reasons: []string{reasonNotStarted},
		sentence: "No guest is requested, because the run strategy of the VM is Manual, and nobody has asked for a start",
		remedy:   "Start the VM: 'kubectl kiln start -n {namespace} {vm}'.", by: Owner, asRequested: true},
	{name: "powered off", reasons: []string{reasonPoweredOff}, sentence: "No guest is requested, because the last guest powered off or was stopped",
		remedy: "Start the VM: 'kubectl kiln start -n {namespace} {vm}'.", by: Owner, asRequested: true},
	{name: "ended", reasons: []string{reasonEnded}, because: "the last guest failed, and nothing starts another one: {message}",
		remedy: "Mend the cause in the guest or its storage, and start the VM: 'kubectl kiln start -n {namespace} {vm}'.", by: Owner},
	{name: "stopping", reasons: []string{reasonStopping},
		sentence: "No guest is requested, and the last guest is being stopped", by: Nobody, asRequested: true},
	{name: "deleted", reasons: []string{reasonDeleted}, sentence: "No guest is requested, because the VM is being deleted", by: Nobody, asRequested: true},
	{name: "receiver", reasons: []string{reasonReceiver},
		sentence: "The VM waits for the guest of another cluster, because its run strategy is WaitAsReceiver",
		remedy:   "Start the migration in the other cluster, or set another spec.runStrategy.", by: Owner, asRequested: true},
	{name: "restoring", reasons: []string{reasonRestoring}, because: "the VM is being restored from a snapshot",
		remedy: "If the restore does not end, read 'kubectl describe vmrestore -n {namespace}'.", by: Nobody},
	{name: "deletion hangs", reasons: []string{reasonDeletionHang}, because: "the deletion of {object} hangs ({message})",
		remedy: "Find the controller or the node that must remove a finalizer, and let it work again: '{describe}'.", by: Admin},
	{name: "run strategy", steps: []string{stepRequested}, reasons: []string{"runStrategy"}, because: "its run strategy is not valid: {message}",
		remedy: "Remove spec.running, and set spec.runStrategy.", by: Owner},

	// volumes
	{name: "claim missing", reasons: []string{reasonClaimMissing}, because: "{object} does not exist",
		remedy: "Create the claim in namespace '{namespace}', or remove its volume from the VM.", by: Owner},
	{name: "claim deleted", reasons: []string{reasonClaimDeleted}, because: "{object} is being deleted",
		remedy: "Create the claim again when it is gone, from a backup if it had data, or remove its volume from the VM.", by: Owner},
	{name: "claim lost", reasons: []string{reasonClaimLost}, because: "{object} has lost its PersistentVolume",
		remedy: "Restore the PersistentVolume, or create the claim again from a backup.", by: Admin},
	{name: "no consumer", reasons: []string{reasonNoConsumer},
		because: "{object} waits for a first consumer, and Kiln starts no guest before its disks are filled",
		remedy:  "Set annotation 'cdi.kubevirt.io/storage.bind.immediate.requested' on the DataVolume.", by: Owner},
	{name: "quota of claims", steps: []string{stepVolumes}, message: matchText(`exceeded quota`), because: "a quota of the namespace forbids its claim: {message}",
		remedy: "Delete claims of the namespace that nobody needs, ask for less storage, or raise the quota.", by: OwnerOrAdmin},
	{name: "clone not allowed", reasons: []string{"UnauthorizedDataVolumeCreate"}, because: "the VM may not clone its disk: {message}",
		remedy: "Let the ServiceAccount of the VM create datavolumes/source in the namespace of the source.", by: Admin},
	{name: "no CDI", reasons: []string{"FailedDataVolumeCreate"}, message: matchText(`install Containerized Data Importer`),
		because: "nothing makes the disk of the VM: {message}",
		remedy:  "Install Containerized Data Importer (CDI), or create a claim of the name.", by: OwnerOrAdmin},
	{name: "no DataVolume", reasons: []string{"FailedDataVolumeCreate"}, because: "a DataVolume of the VM cannot be created: {message}",
		remedy: "Correct spec.dataVolumeTemplates of the VM.", by: Owner},
	{name: "import fails", steps: []string{stepVolumes}, reasons: []string{reasonImportFails}, because: "{object} cannot be filled: {message}",
		remedy: "Correct spec.source of the DataVolume, its Secret or its size, or make its source answer, and create the DataVolume again.", by: Owner},
	{name: "importing", reasons: []string{reasonImporting}, because: "{object} is being filled: {message}", by: Nobody},
	{name: "upload awaited", reasons: []string{reasonUploadAwaited}, because: "{object} waits for an upload",
		remedy: "Upload the image: 'virtctl image-upload dv {name} -n {namespace} --no-create --image-path=FILE'.", by: Owner},
	{name: "import paused", reasons: []string{reasonImportPaused}, because: "{object} waits for its next checkpoint",
		remedy: "Set spec.finalCheckpoint of the DataVolume when the last checkpoint is there.", by: Owner},
	{name: "DataVolume waits", reasons: []string{reasonDataVolume}, because: "{object} is not filled yet: {message}",
		remedy: "If this lasts, read '{describe}', and check that CDI runs.", by: Nobody},
	{name: "no volume", reasons: []string{"FailedBinding"}, because: "no PersistentVolume fits {object}: {message}",
		remedy: "Name a StorageClass in the claim, or create a PersistentVolume that fits.", by: OwnerOrAdmin},
	{name: "provisioning fails", reasons: []string{"ProvisioningFailed"}, because: "the storage cannot make the volume of {object}: {message}",
		remedy: "Mend the storage or its StorageClass, or ask for less or other storage in the claim.", by: OwnerOrAdmin},
	{name: "no storage class", reasons: []string{reasonClaimUnbound}, message: matchText(`there is no StorageClass`),
		because: "{object} names a StorageClass that does not exist: {message}",
		remedy:  "Create the StorageClass, or create the claim again with another one.", by: OwnerOrAdmin},
	{name: "claim unbound", reasons: []string{reasonClaimUnbound}, because: "{object} is not bound: {message}",
		remedy: "If this lasts, check that the provisioner of its StorageClass runs: '{describe}'.", by: Nobody},

	// networks
	{name: "network missing", reasons: []string{reasonNetworkMissing}, because: "{object} cannot be found: {message}",
		remedy: "Create the NetworkAttachmentDefinition, or correct networks[].multus.networkName of the VM.", by: OwnerOrAdmin},

	// instance and pod: what the API server refuses to the controller
	{name: "back-off", steps: []string{stepInstance}, reasons: []string{v1alpha1.ReasonCrashLoopBackOff}, because: "{message}",
		remedy: "Read the console of the next guest ('kubectl kiln console -n {namespace} {vm}') and the log of its pod, and mend the guest or its disk.", by: Owner},
	{name: "quota", message: matchText(`exceeded quota`), because: "a quota of the namespace forbids it: {message}",
		remedy: "Stop other VMs of the namespace, use a smaller instancetype, or raise the quota.", by: OwnerOrAdmin},
	{name: "quota needs limits", message: matchText(`failed quota.*must specify`),
		because: "a quota of the namespace requires values that the pod lacks: {message}",
		remedy:  "Set these values in domain.resources of the VM, or add a LimitRange with defaults to the namespace.", by: OwnerOrAdmin},
	{name: "limit range", message: matchText(`(maximum|minimum) .* usage per|limit to request ratio`),
		because: "a LimitRange of the namespace forbids it: {message}",
		remedy:  "Use an instancetype of a permitted size, or change the LimitRange.", by: OwnerOrAdmin},
	{name: "pod security", message: matchText(`violates podsecurity`), because: "Pod Security forbids the pod in its namespace: {message}",
		remedy: "Remove from the VM what the message names, or let an administrator choose the level of Pod Security of namespace '{namespace}' that permits it.",
		by:     OwnerOrAdmin},
	{name: "webhook away", message: matchText(`failed calling webhook`), because: "a webhook does not answer: {message}",
		remedy: "Let the webhook that the message names answer again.", by: Admin},
	{name: "denied", message: matchText(`denied the request`), because: "admission refused what the VM asks for: {message}",
		remedy: "Correct the fields that the message names: 'kubectl kiln validate -n {namespace} vm/{vm}' lists the mistakes that Kiln finds.", by: Owner},
	{name: "controller may not", message: matchText(`is forbidden: user "`), because: "{controller} lacks a right: {message}",
		remedy: "Restore the ClusterRoles of the installation.", by: Admin},
	{name: "name taken", reasons: []string{v1alpha1.ReasonNameTaken, v1alpha1.ReasonHardwareForeign, v1alpha1.ReasonUUIDTaken},
		because: "something that another VM owns has its name or UUID: {message}",
		remedy:  "Delete what is left of the other VM, or give one of them another name or UUID.", by: Owner},
	{name: "replaced", reasons: []string{reasonReplaced}, because: "its last guest ended and is about to be replaced: {message}",
		remedy: "If the next guest ends, too, read its console.", by: Nobody},
	{name: "instance stops", reasons: []string{reasonInstanceStops},
		because: "the last guest is being stopped", remedy: "The next guest starts when it has stopped.", by: Nobody},
	{name: "instance awaited", reasons: []string{reasonInstanceWaits}, because: "{controller} has not made its VirtualMachineInstance yet", by: Nobody},
	{name: "instance silent", reasons: []string{reasonInstanceSilent}, because: "{controller} has not made its VirtualMachineInstance, and does not say why",
		remedy: "Check that {controller} runs, and read its log.", by: Admin},

	// pod
	{name: "not placeable", reasons: []string{v1alpha1.ReasonNotPlaceable, "FailedCreateValidation", v1.ContainerPathVolumesDisabledReason},
		because: "no pod can be made for the VM: {message}",
		remedy:  "Create what is missing, or correct the field of the VM that the message names.", by: Owner},
	{name: "claim not found", reasons: []string{v1alpha1.ReasonFailedPvcNotFound}, because: "a PersistentVolumeClaim does not exist: {message}",
		remedy: "Create the claim in namespace '{namespace}', or remove its volume from the VM.", by: Owner},
	{name: "import failed", reasons: []string{v1alpha1.ReasonFailedDataVolumeImport}, because: "a DataVolume cannot be filled: {message}",
		remedy: "Correct spec.source of the DataVolume, delete the DataVolume and create it again.", by: Owner},
	{name: "provisioning", reasons: []string{v1alpha1.ReasonProvisioning}, because: "a DataVolume is being filled: {message}", by: Nobody},
	{name: "state not ready", reasons: []string{"BackendStorageNotReady", "FailedBackendStorageCreate", "FailedBackendStorageProbe"},
		because: "the claim for EFI variables and TPM state is not ready: {message}",
		remedy:  "Set vmStateStorageClass of KubeVirt's configuration to a StorageClass that works, or mend the storage.", by: Admin},
	{name: "not admitted", reasons: []string{v1alpha1.ReasonNotExplicit}, because: "the VirtualMachineInstance did not go through admission: {message}",
		remedy: "Let Kiln's webhook answer again, and restart the VM.", by: Admin},
	{name: "evicted", reasons: []string{v1alpha1.ReasonEvicted}, because: "kubelet evicted its pod: {message}",
		remedy: "Give the node more memory or disk, or let the guest use less.", by: OwnerOrAdmin},
	{name: "out of memory", message: matchText(`oomkilled`), because: "its pod used more memory than its limit: {message}",
		remedy: "Give the guest less memory than its pod has, or raise the limit.", by: Owner},
	{name: "rejected by kubelet", steps: []string{stepPod}, message: matchText(`outof|unexpectedadmissionerror|topologyaffinityerror|nodeaffinity`),
		because: "its node rejected the pod: {message}",
		remedy:  "Let the node have the device or CPUs that the pod requests. The VM is started again.", by: Admin},
	{name: "pod ended", steps: []string{stepPod}, reasons: []string{reasonPodEnded}, because: "its pod ended before the guest ran: {message}",
		remedy: "Read 'kubectl logs -n {namespace} {name} --all-containers'.", by: OwnerOrAdmin},
	{name: "pod gone", reasons: []string{reasonPodGone},
		because: "its pod was deleted", remedy: "The controller ends the guest. With run strategy Always the next one starts.", by: Nobody},
	{name: "pod stops", reasons: []string{reasonPodStops}, because: "its pod is being deleted", by: Nobody},
	{name: "pod awaited", reasons: []string{reasonPodWaits}, because: "{controller} has not made its pod yet", by: Nobody},
	{name: "pod silent", reasons: []string{reasonPodSilent}, because: "{controller} has not made its pod, and does not say why",
		remedy: "Check that {controller} runs, and read its log. With guests on bare machines, check that a launcher fits spec.nodeSelector.", by: Admin},

	// scheduled
	{name: "gated", reasons: []string{corev1.PodReasonSchedulingGated}, because: "its pod waits for its scheduling gates: {message}",
		remedy: "Let the controller that owns the gate remove it: '{describe}'.", by: Admin},
	{name: "no nodes", steps: []string{stepScheduled}, message: matchText(`no nodes available|^0/0 nodes`), because: "the cluster has no node: {message}",
		remedy: "Add a node.", by: Admin},
	{name: "claims of the pod", steps: []string{stepScheduled},
		message: matchText(`unbound immediate persistentvolumeclaims|persistentvolumeclaim "[^"]*" not found|WaitForFirstConsumer`),
		because: "its pod waits for a PersistentVolumeClaim: {message}",
		remedy:  "Create the claim, or check that the provisioner of its StorageClass runs.", by: OwnerOrAdmin},
	{name: "binding", reasons: []string{v1alpha1.ReasonWaitingForVolumeBinding}, because: "its pod waits for a volume: {message}",
		remedy: "If this lasts, check that the provisioner of the StorageClass runs.", by: Nobody},
	{name: "too large", steps: []string{stepScheduled}, reasons: []string{v1alpha1.ReasonNoNodeLargeEnough},
		because: "no node is large enough for its pod, even without other pods: {message}",
		remedy:  "Add a larger node, or use a smaller instancetype.", by: OwnerOrAdmin},
	{name: "too many huge pages", steps: []string{stepScheduled}, reasons: []string{v1alpha1.ReasonNoNodeHasHugePages},
		because: "no node has so many huge pages, even without other pods: {message}",
		remedy:  "Reserve huge pages on a node, or use an instancetype without huge pages.", by: OwnerOrAdmin},
	{name: "no CPU", steps: []string{stepScheduled}, reasons: []string{v1alpha1.ReasonNoNodeHasCPU},
		because: "no node offers the CPU that the guest needs: {message}",
		remedy:  "Add a node that offers the CPU, or let the guest have another one: 'kubectl kiln repin --cpu' replaces a recorded CPU.", by: OwnerOrAdmin},
	{name: "no KVM anywhere", steps: []string{stepScheduled}, reasons: []string{v1alpha1.ReasonNoNodeHasDevice}, message: matchText(noKVM),
		because: "no node has the device /dev/kvm: {message}", remedy: remedyKVM, by: Admin},
	{name: "too many devices", steps: []string{stepScheduled}, reasons: []string{v1alpha1.ReasonNoNodeHasDevice},
		because: "no node has the devices that the VM requests, even without other pods: {message}",
		remedy:  "Add a node with the devices, or check the device plugins of the nodes.", by: OwnerOrAdmin},
	{name: "no node fits", steps: []string{stepScheduled}, message: matchTwoOf(noFreeResources, noKVM, noMatch, tainted, volumeNode, antiPods),
		because: "no node fits its pod: {message}",
		remedy:  "Add a node that fits, stop other VMs, or change the size or the node selector of the VM.", by: OwnerOrAdmin},
	{name: "no room", steps: []string{stepScheduled}, message: matchText(noFreeResources), because: "no node has room for its pod: {message}",
		remedy: "Add a node, stop other VMs, or use a smaller instancetype.", by: OwnerOrAdmin},
	{name: "no KVM", steps: []string{stepScheduled}, message: matchText(noKVM), because: "no node has a free device /dev/kvm: {message}",
		remedy: remedyKVM, by: Admin},
	{name: "no device", steps: []string{stepScheduled}, message: matchText(noDevice), because: "no node has a free device that the VM requests: {message}",
		remedy: "Add a node with the device, check its device plugin, or stop the VM that has the device.", by: OwnerOrAdmin},
	{name: "volume elsewhere", steps: []string{stepScheduled}, message: matchText(volumeNode), because: "no node reaches its volumes: {message}",
		remedy: "Let a node of the zone of the volume be schedulable, or move the volume.", by: Admin},
	{name: "spread", steps: []string{stepScheduled}, message: matchText(antiPods), because: "rules about other pods leave no node: {message}",
		remedy: "Relax the affinity or the topology spread constraints of the VM, or add a node.", by: OwnerOrAdmin},
	{name: "no matching node", steps: []string{stepScheduled}, message: matchText(noMatch),
		because: "no node matches the node selector or affinity of the pod: {message}",
		remedy:  "Correct nodeSelector, affinity, architecture and CPU model of the VM, or label a node.", by: OwnerOrAdmin},
	{name: "tainted", steps: []string{stepScheduled}, message: matchText(tainted), because: "taints or a drain keep its pod from all nodes: {message}",
		remedy: "Uncordon or untaint a node, or add a toleration to the VM.", by: OwnerOrAdmin},
	{name: "scheduler awaited", reasons: []string{reasonSchedulerWaits}, because: "the scheduler has not chosen a node yet", by: Nobody},
	{name: "scheduler silent", reasons: []string{reasonSchedulerSilent},
		because: "{message}", remedy: "Check that this scheduler exists and runs.", by: Admin},

	// containers
	{name: "no right to pull", reasons: []string{v1alpha1.ReasonErrImagePull, v1alpha1.ReasonImagePullBackOff},
		message: matchText(`unauthorized|authentication required|access denied|denied:|no basic auth|403 forbidden`),
		because: "an image may not be pulled: {message}",
		remedy:  "Name a Secret with an account of the registry in containerDisk.imagePullSecret, or correct the name of the image.", by: Owner},
	{name: "registry away", reasons: []string{v1alpha1.ReasonErrImagePull, v1alpha1.ReasonImagePullBackOff},
		message: matchText(`no such host|timeout|connection refused|x509|network is unreachable|toomanyrequests`),
		because: "the registry of an image does not answer its node: {message}",
		remedy:  "Let nodes reach the registry, with a certificate that they trust, or use another registry.", by: OwnerOrAdmin},
	{name: "image", reasons: []string{v1alpha1.ReasonErrImagePull, v1alpha1.ReasonImagePullBackOff, v1alpha1.ReasonInvalidImageName,
		v1alpha1.ReasonErrImageNeverPull, "ErrImageInspect", "RegistryUnavailable"},
		because: "an image cannot be pulled: {message}", remedy: "Correct the image of the containerDisk, or push the image.", by: Owner},
	{name: "configuration of a container", reasons: []string{v1alpha1.ReasonCreateContainerConfigError},
		because: "a Secret, a ConfigMap or a key of one is missing: {message}",
		remedy:  "Create what the message names in namespace '{namespace}'.", by: Owner},
	{name: "container not created", reasons: []string{v1alpha1.ReasonCreateContainerError, "RunContainerError"},
		because: "the container runtime cannot start a container: {message}",
		remedy:  "Read '{describe}' and the log of the container runtime of the node.", by: Admin},
	{name: "secret missing", reasons: []string{"FailedMount"}, message: matchText(`(secret|configmap|references non-existent) .*(not found|key)`),
		because: "a Secret or ConfigMap of the VM does not exist: {message}",
		remedy:  "Create what the message names in namespace '{namespace}', or remove its volume from the VM.", by: Owner},
	{name: "attached elsewhere", reasons: []string{"FailedAttachVolume"}, message: matchText(`multi-attach|already (attached|exclusively)`),
		because: "another node still has a volume of the VM: {message}",
		remedy:  "Stop the pod that uses the volume. If its node is certainly off, taint it with node.kubernetes.io/out-of-service.", by: Admin},
	{name: "volume not mounted", reasons: []string{"FailedMount", "FailedAttachVolume", "FailedMapVolume"},
		because: "a volume of the VM cannot be mounted: {message}",
		remedy:  "Mend the storage or its driver on the node: '{describe}'.", by: Admin},
	{name: "network of the pod", reasons: []string{"FailedCreatePodSandBox", "NetworkNotReady"}, message: matchText(`network-attachment-definition`),
		because: "a NetworkAttachmentDefinition cannot be used: {message}",
		remedy:  "Create or correct the NetworkAttachmentDefinition that the message names.", by: OwnerOrAdmin},
	{name: "sandbox", reasons: []string{"FailedCreatePodSandBox", "NetworkNotReady"}, because: "its node cannot give the pod a network: {message}",
		remedy: "Mend the network plugin (CNI) or the container runtime of the node: '{describe}'.", by: Admin},
	{name: "resource claim", reasons: []string{"FailedPrepareDynamicResources"}, because: "its node cannot prepare a device: {message}",
		remedy: "Mend the driver of the ResourceClaim on the node.", by: Admin},
	{name: "container ended", steps: []string{stepContainers}, reasons: []string{reasonContainerEnded, v1alpha1.ReasonCrashLoopBackOff},
		because: "a container of its pod ended: {message}",
		remedy:  "Read 'kubectl logs -n {namespace} {name} --all-containers --previous'.", by: OwnerOrAdmin},
	{name: "node not ready", reasons: []string{reasonNodeNotReady}, because: "{object} does not work: {message}",
		remedy: "Mend the node. If it is certainly off, taint it with node.kubernetes.io/out-of-service.", by: Admin},
	{name: "containers awaited", reasons: []string{reasonContainersWait}, because: "{message}", remedy: "A large image takes minutes.", by: Nobody},
	{name: "containers silent", reasons: []string{reasonContainersSilent},
		because: "{message}", remedy: "Read '{describe}' and the log of kubelet.", by: Admin},

	// domain
	{name: "node lost", reasons: []string{reasonNodeLost}, because: "the node of the guest does not answer: {message}",
		remedy: "Mend the node. If it is certainly off, taint it with node.kubernetes.io/out-of-service.", by: Admin},
	{name: "no KVM in the pod", steps: []string{stepDomain}, message: matchText(`/dev/kvm|kvm (is not available|not supported)|failed to initialize kvm`),
		because: "the pod cannot use hardware virtualization: {message}",
		remedy:  "Enable virtualization in the firmware of the node, or nested virtualization, and load the module kvm.", by: Admin},
	{name: "hardware awaited", reasons: []string{v1alpha1.ReasonHardwareAwaited}, because: "its hardware record is not assigned yet: {message}",
		remedy: "If this lasts, check that Kiln's controller runs.", by: Nobody},
	{name: "start failed", steps: []string{stepDomain}, reasons: []string{v1alpha1.ReasonStartFailed, v1alpha1.ReasonNotRenderable,
		v1alpha1.ReasonNotBindable, v1alpha1.ReasonInvalidFacts,
		v1alpha1.ReasonNotRecordable, "Synchronizing with the Domain failed."}, because: "libvirt or the launcher refused to start it: {message}",
		remedy: "Correct the field of the VM that the message is about, or move the VM to a node that supports it.", by: OwnerOrAdmin},
	{name: "domain awaited", reasons: []string{reasonDomainWaits}, because: "its launcher has not started the domain yet", by: Nobody},
	{name: "domain slow", reasons: []string{reasonDomainSlow}, because: "its pod runs, and its domain was not started within 5 minutes",
		remedy: "Read the log of the pod ('kubectl logs -n {namespace} POD -c compute'), and of virt-handler of its node in KubeVirt's clusters.", by: OwnerOrAdmin},

	// guest
	{name: "IO error", reasons: []string{v1alpha1.ReasonPausedIOError}, sentence: "The guest is paused, because a disk cannot be read or written: {message}",
		remedy: "Give the storage free space, or mend it. Then 'kubectl kiln unpause -n {namespace} {vm}', unless the guest goes on by itself.", by: OwnerOrAdmin},
	{name: "watchdog", reasons: []string{v1alpha1.ReasonPausedByWatchdog}, sentence: "The guest is paused, because its watchdog expired: {message}",
		remedy: "Restart the VM: 'kubectl kiln restart -n {namespace} {vm}'.", by: Owner},
	{name: "panic", reasons: []string{v1alpha1.ReasonPausedCrashed}, sentence: "The guest is paused, because its kernel panicked: {message}",
		remedy: "Read its console, and restart the VM: 'kubectl kiln restart -n {namespace} {vm}'.", by: Owner},
	{name: "migration failed", reasons: []string{v1alpha1.ReasonPausedMigrationFailed},
		sentence: "The guest is paused, because its migration failed: {message}",
		remedy:   "Read '{describe}', and restart the VM: 'kubectl kiln restart -n {namespace} {vm}'.", by: Admin},
}

// matchTwoOf returns an expression for messages in which at least two of these expressions are found.
func matchTwoOf(kinds ...string) *regexp.Regexp {
	pairs := ""
	for i, a := range kinds {
		for j, b := range kinds {
			if i != j {
				if pairs != "" {
					pairs += "|"
				}
				pairs += "(" + a + ").*(" + b + ")"
			}
		}
	}
	return matchText(pairs)
}
