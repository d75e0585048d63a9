package command

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unique"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/lru"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Slim removes the fields of an object that nothing reads from a cache. A cache keeps ten thousand VMs: without their templates,
// which are read from the API server when a guest starts, and without foreign annotations, of which a tenant may write 256 KiB to each object.
//
// An object from a cache must not be written back with Update, which would delete the removed fields. A patch is the difference of two copies
// of the object (client.MergeFrom), and does not change fields that both copies lack. TestOnlyPatches of internal/lifecycle shows this.
func Slim(object any) (any, error) {
	switch of := object.(type) {
	case *v1.VirtualMachine:
		slimVM(of)
	case *v1.VirtualMachineInstance:
		slimVMI(of)
	case *corev1.Pod:
		slimPod(of)
	case *corev1.Node:
		slimNode(of)
	case *corev1.PersistentVolumeClaim:
		slimClaim(of)
	case *v1alpha1.GuestPod:
		slimGuestPod(of)
	case *v1alpha1.GuestHardware:
		slimHardware(of)
	case *snapshot.VirtualMachineSnapshotContent: // the VM in it is read from the API server when it is restored
		slimContent(of)
	case *v1.VirtualMachineInstancePreset:
		slimMeta(&of.ObjectMeta)
	// The cache only knows that these objects exist, and who owns them. Their controllers read them from the API server.
	case *snapshot.VirtualMachineSnapshot:
		slimMeta(&of.ObjectMeta)
		of.Labels, of.Spec, of.Status = nil, snapshot.VirtualMachineSnapshotSpec{}, nil
	case *snapshot.VirtualMachineRestore:
		slimMeta(&of.ObjectMeta)
		of.Labels, of.Spec, of.Status = nil, snapshot.VirtualMachineRestoreSpec{}, nil
	case *clone.VirtualMachineClone:
		slimMeta(&of.ObjectMeta)
		of.Labels, of.Spec, of.Status = nil, clone.VirtualMachineCloneSpec{}, clone.VirtualMachineCloneStatus{}
	case *unstructured.Unstructured:
		of.SetManagedFields(nil)
		if slices.Contains(catalogKinds, of.GetKind()) {
			slimCatalog(of)
		}
	case *cdi.DataVolume:
		slimDataVolume(of)
	case *metav1.PartialObjectMetadata: // only names, labels, the controllers of claims and the resources of networks are read; namespaces have slimNamespace
		slimMetadata(of)
	default: // other kinds lose only managedFields, because the rotation of certificates updates whole objects
		return cache.TransformStripManagedFields()(object)
	}
	return object, nil
}

// mostTemplates is how many dataVolumeTemplates of a VM a cache keeps. Admission refuses more.
const mostTemplates = 64

// slimVM keeps the run strategy, the matchers and the names of dataVolumeTemplates of the spec, and of the template the metadata, by which presets and profiles
// select, and what selects nodes.
func slimVM(vm *v1.VirtualMachine) {
	slimMeta(&vm.ObjectMeta)
	spec := v1.VirtualMachineSpec{
		Running:     vm.Spec.Running, //nolint:staticcheck // 'running' counts
		RunStrategy: vm.Spec.RunStrategy, Instancetype: vm.Spec.Instancetype, Preference: vm.Spec.Preference,
	}
	for i := range vm.Spec.DataVolumeTemplates[:min(len(vm.Spec.DataVolumeTemplates), mostTemplates)] {
		name := metav1.ObjectMeta{Name: vm.Spec.DataVolumeTemplates[i].Name}
		spec.DataVolumeTemplates = append(spec.DataVolumeTemplates, v1.DataVolumeTemplateSpec{ObjectMeta: name})
	}
	if template := vm.Spec.Template; template != nil {
		slimMeta(&template.ObjectMeta)
		spec.Template = &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: keepPlacement(&template.Spec)}
	}
	vm.Spec = spec
}

// slimVMI keeps the fields of the status on which VMs, their hardware records and their starts depend. Of the spec it keeps the grace period,
// which the owner may shorten, the CPUs and memory, which metrics report, and what selects nodes.
func slimVMI(vmi *v1.VirtualMachineInstance) {
	_, recorded := vmi.Annotations[v1alpha1.AnnotationFrontend]
	if recorded {
		vmi.Annotations[v1alpha1.AnnotationFrontend] = "" // some KiB: only whether the annotation exists is read
	}
	slimMeta(&vmi.ObjectMeta)
	spec := keepPlacement(&vmi.Spec)
	spec.TerminationGracePeriodSeconds = vmi.Spec.TerminationGracePeriodSeconds
	if cpu := vmi.Spec.Domain.CPU; cpu != nil {
		spec.Domain.CPU = &v1.CPU{Cores: cpu.Cores, Sockets: cpu.Sockets, Threads: cpu.Threads}
	}
	if memory := vmi.Spec.Domain.Memory; memory != nil && memory.Guest != nil {
		spec.Domain.Memory = &v1.Memory{Guest: memory.Guest}
	}
	vmi.Spec = spec
	vmi.Status = v1.VirtualMachineInstanceStatus{
		Phase: vmi.Status.Phase, PhaseTransitionTimestamps: vmi.Status.PhaseTransitionTimestamps, NodeName: vmi.Status.NodeName, Conditions: vmi.Status.Conditions,
		// internal/vmipod compares these fields with the pod. If one were missing here, it would write the field again and again.
		ActivePods: vmi.Status.ActivePods, Interfaces: vmi.Status.Interfaces, Machine: vmi.Status.Machine, QOSClass: vmi.Status.QOSClass,
		LauncherContainerImageVersion: vmi.Status.LauncherContainerImageVersion, RuntimeUser: vmi.Status.RuntimeUser,
		GuestOSInfo: vmi.Status.GuestOSInfo, VolumeStatus: keepTargets(vmi.Status.VolumeStatus, recorded),
	}
}

// mostPlacement is how many bytes a cache keeps of what selects the nodes of a guest. A tenant may write a megabyte.
const mostPlacement = 4 << 10

// keepPlacement keeps what selects the nodes of a guest: whether they offer its CPU is judged from caches. If that is too large, it keeps only the
// architecture, and the guest is judged by all nodes of the architecture.
func keepPlacement(of *v1.VirtualMachineInstanceSpec) (kept v1.VirtualMachineInstanceSpec) {
	kept.Architecture = of.Architecture
	size := 0
	for key, value := range of.NodeSelector {
		size += len(key) + len(value)
	}
	for i := range of.Tolerations {
		size += of.Tolerations[i].Size()
	}
	var required *corev1.NodeSelector
	if of.Affinity != nil && of.Affinity.NodeAffinity != nil {
		required = of.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if required != nil {
		size += required.Size()
	}
	if size > mostPlacement {
		return kept
	}
	kept.NodeSelector, kept.Tolerations = of.NodeSelector, of.Tolerations
	if required != nil {
		kept.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	return kept
}

// sharedFeatures has lists of CPU features by their text. Most guests have the CPU of others, and the lists are the largest part of what a cache keeps of a
// GuestHardware.
var sharedFeatures = lru.New(1024)

// slimHardware keeps the CPU of the record, by which nodes are judged, and the conditions.
func slimHardware(of *v1alpha1.GuestHardware) {
	slimMeta(&of.ObjectMeta)
	of.Status = v1alpha1.GuestHardwareStatus{Conditions: of.Status.Conditions}
	of.Spec.Identity = ""
	if of.Spec.Hardware == nil {
		return
	}
	cpu := of.Spec.Hardware.CPU
	of.Spec.Hardware = &v1alpha1.HardwareRecord{CPU: cpu}
	if cpu != nil {
		cpu.Features, cpu.DisabledFeatures = shareFeatures(cpu.Features), nil
	}
}

// shareFeatures returns an equal list that other objects of the cache have as well.
func shareFeatures(features []string) []string {
	key := strings.Join(features, ",")
	shared, _ := sharedFeatures.Get(key)
	if list, is := shared.([]string); is && slices.Equal(list, features) { // a name may contain the separator
		return list
	}
	sharedFeatures.Add(key, features)
	return features
}

// keepTargets keeps only the names and targets of volumes. They are read only if KubeVirt runs the guest with a record, which follows them.
func keepTargets(volumes []v1.VolumeStatus, recorded bool) (kept []v1.VolumeStatus) {
	if !recorded {
		return nil
	}
	for i := range volumes {
		kept = append(kept, v1.VolumeStatus{Name: volumes[i].Name, Target: volumes[i].Target})
	}
	return kept
}

// slimContent keeps the name of the snapshot, and the fields of the VM that name revisions, because the collector must keep these. It removes the claims,
// which have annotations of tenants.
func slimContent(of *snapshot.VirtualMachineSnapshotContent) {
	slimMeta(&of.ObjectMeta)
	of.Labels, of.Spec.VolumeBackups, of.Status = nil, nil, nil
	if vm := of.Spec.Source.VirtualMachine; vm != nil {
		kept := snapshot.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: vm.Name, UID: vm.UID, Annotations: vm.Annotations}}
		slimMeta(&kept.ObjectMeta)
		kept.Spec.Instancetype, kept.Spec.Preference = vm.Spec.Instancetype, vm.Spec.Preference
		kept.Status.InstancetypeRef, kept.Status.PreferenceRef = vm.Status.InstancetypeRef, vm.Status.PreferenceRef
		of.Spec.Source.VirtualMachine = &kept
	}
}

// slimMetadata keeps the name and the labels of an object, the controller of a claim, and the annotation of a network with the resource of its devices.
func slimMetadata(of *metav1.PartialObjectMetadata) {
	controller, resource := controllerOf(of), of.Annotations[pod.AnnotationResource]
	of.ManagedFields, of.Annotations, of.OwnerReferences, of.Finalizers = nil, nil, nil, nil
	if of.Kind == "PersistentVolumeClaim" {
		of.OwnerReferences = controller
	}
	if resource != "" && len(resource) <= mostResource {
		of.Annotations = map[string]string{pod.AnnotationResource: resource}
	}
	keepShortest(of.Labels, mostLabels)
}

// slimDataVolume keeps the controller, the phase and the conditions of a DataVolume, without their times, which change with each look of CDI.
func slimDataVolume(volume *cdi.DataVolume) {
	var conditions []cdi.DataVolumeCondition
	for _, c := range volume.Status.Conditions {
		if c.Type == cdi.DataVolumeBound || c.Type == cdi.DataVolumeRunning {
			conditions = append(conditions, cdi.DataVolumeCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	volume.OwnerReferences = controllerOf(volume)
	volume.ManagedFields, volume.Annotations, volume.Labels, volume.Finalizers = nil, nil, nil, nil
	volume.Spec, volume.Status = cdi.DataVolumeSpec{}, cdi.DataVolumeStatus{Phase: volume.Status.Phase, Conditions: conditions}
}

// controllerOf returns the owner reference of an object's controller, if it has one.
func controllerOf(object metav1.Object) []metav1.OwnerReference {
	if controller := metav1.GetControllerOf(object); controller != nil {
		return []metav1.OwnerReference{*controller}
	}
	return nil
}

// slimPod keeps the node and the status of the pod of a guest.
func slimPod(of *corev1.Pod) {
	of.ManagedFields, of.Annotations = nil, nil
	keepShortest(of.Labels, mostLabels)
	of.Spec = corev1.PodSpec{NodeName: of.Spec.NodeName}
}

// mostMachineTypes bounds the bytes of the annotation of machine types. QEMU 10.0 has 805 bytes of them for amd64. An attacker who takes over
// 'launcher devices' of a node may write more.
const mostMachineTypes = 16 << 10

// mostNodeLabels bounds the bytes of the labels of a node. A node with 300 labels of its CPU and as many of KubeVirt's node-labeller has 28 KiB of them. An
// attacker who takes over a node may write more. Such a node may lose labels that pods select, and gets no guest then.
const mostNodeLabels = 128 << 10

// slimNode keeps what decides whether a pod may run on a node: the labels, which HostProfiles select, too, the machine types, the taints, spec.unschedulable,
// the condition Ready without its times, and the allocatable resources. Heartbeats change none of it.
func slimNode(node *corev1.Node) {
	status := corev1.NodeStatus{Allocatable: node.Status.Allocatable}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	types := node.Annotations[v1alpha1.AnnotationMachineTypes]
	node.ManagedFields, node.Annotations, node.OwnerReferences, node.Status = nil, nil, nil, status
	if types != "" && len(types) <= mostMachineTypes {
		node.Annotations = map[string]string{v1alpha1.AnnotationMachineTypes: types}
	}
	node.Spec = corev1.NodeSpec{Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable}
	keepShortest(node.Labels, mostNodeLabels)
	node.Labels = internLabels(node.Labels)
}

// internLabels returns labels whose texts are shared by all nodes: nodes have hundreds of labels of their CPUs, which most of them have in common.
func internLabels(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	shared := make(map[string]string, len(labels))
	for key, value := range labels {
		shared[unique.Make(key).Value()] = unique.Make(value).Value()
	}
	return shared
}

// slimClaim keeps what the pod of a guest depends on: modes, size, StorageClass and phase.
func slimClaim(claim *corev1.PersistentVolumeClaim) {
	claim.ManagedFields, claim.Annotations, claim.Labels, claim.OwnerReferences, claim.Finalizers = nil, nil, nil, nil, nil
	spec := &claim.Spec
	claim.Spec = corev1.PersistentVolumeClaimSpec{AccessModes: spec.AccessModes, VolumeMode: spec.VolumeMode, StorageClassName: spec.StorageClassName,
		Resources: corev1.VolumeResourceRequirements{Requests: spec.Resources.Requests}}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: claim.Status.Phase, Capacity: claim.Status.Capacity}
}

// slimGuestPod removes the domain of the hardware, which is the largest part, and the facts that it was made of. It also removes the guest's host name,
// which no status contains.
func slimGuestPod(of *v1alpha1.GuestPod) {
	of.ManagedFields, of.Annotations = nil, nil
	if of.Spec.Hardware != nil {
		of.Spec.Hardware.Frontend, of.Status.Facts = "", nil
	}
	if of.Status.Agent != nil {
		of.Status.Agent.Hostname = ""
	}
	if of.Spec.Clients != nil { // all guests have the same authorities
		of.Spec.Clients.Authorities = unique.Make(of.Spec.Clients.Authorities).Value()
	}
}

// catalogKinds are the kinds to whose revisions VMs are pinned. Caches have them untyped.
var catalogKinds = append(instancetype.CatalogKinds(), v1alpha1.KindGuestProfile, v1alpha1.KindClusterGuestProfile)

// slimCatalog removes the copy of the object that kubectl apply writes, and bounds the rest. VMs and policies read all other fields of an instancetype,
// preference or profile.
func slimCatalog(of *unstructured.Unstructured) {
	if annotations := of.GetAnnotations(); annotations != nil {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		of.SetAnnotations(annotations)
	}
	revision.Bound(of)
}

const (
	// mostAnnotations is how many bytes of the annotations of an object a cache keeps. A VM that is pinned to 256 profiles has 16 KiB of annotations.
	mostAnnotations = 32 << 10
	// mostLabels is how many bytes of the labels of an object a cache keeps. 512 labels may have 190 KiB. The labels of VMs and VMIs are read from a cache to
	// count the VMs that a profile selects.
	mostLabels = 32 << 10
	// mostResource is the longest name of a resource of a network that a cache keeps. Kubernetes' names of resources have at most 317 characters.
	mostResource = 512
)

// slimMeta keeps only the annotations of Kiln and KubeVirt: their domains are kilnvm.io, kubevirt.io and its subdomains. Because a tenant may write 256 KiB
// of these, too, it keeps at most mostAnnotations.
func slimMeta(of *metav1.ObjectMeta) {
	of.ManagedFields = nil
	maps.DeleteFunc(of.Annotations, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return domain != "kilnvm.io" && domain != "kubevirt.io" && !strings.HasSuffix(domain, ".kubevirt.io")
	})
	keepShortest(of.Annotations, mostAnnotations)
	keepShortest(of.Labels, mostLabels)
}

// keepShortest deletes the entries with the longest values until the rest has at most so many bytes.
func keepShortest(all map[string]string, most int) {
	size := 0
	for key, value := range all {
		size += len(key) + len(value)
	}
	if size <= most {
		return
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(all[a]), len(all[b])), cmp.Compare(a, b))
	})
	size = 0
	for _, key := range keys {
		if size += len(key) + len(all[key]); size > most {
			delete(all, key)
		}
	}
}

// slimNamespace keeps labels and annotations, which selectors and policies read, except the copy of the object that kubectl apply writes.
func slimNamespace(object any) (any, error) {
	if namespace, err := meta.Accessor(object); err == nil {
		namespace.SetManagedFields(nil)
		namespace.SetOwnerReferences(nil)
		annotations := namespace.GetAnnotations()
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		namespace.SetAnnotations(annotations)
	}
	return object, nil
}
