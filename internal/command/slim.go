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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Slim removes from an object what nothing reads from a cache. A cluster has ten thousand VMs, and a cache keeps each of them: without their templates,
// which are read from the API server when a guest starts. Annotations of others go too: a tenant may write 256 KiB of them to each object.
//
// Whoever has an object from a cache must not write it back whole: Update would delete what is missing here. A patch is the difference of two copies
// of the object (client.MergeFrom), so that what is missing in both stays as it is. TestOnlyPatches of internal/lifecycle shows this.
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
	case *v1alpha1.GuestPod:
		slimGuestPod(of)
	case *snapshot.VirtualMachineSnapshotContent: // the VM that it holds is read when it is restored
		slimContent(of)
	case *v1.VirtualMachineInstancePreset:
		slimMeta(&of.ObjectMeta)
	// Of these a cache tells that they are there, and whose they are. Their controllers read them from the API server.
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
	case *metav1.PartialObjectMetadata: // watched for their names and labels alone; namespaces have slimNamespace
		of.ManagedFields, of.Annotations, of.OwnerReferences, of.Finalizers = nil, nil, nil, nil
		keepShortest(of.Labels, mostLabels)
	default: // of other kinds only the record of who has set which field: the rotation of certificates updates whole objects
		return cache.TransformStripManagedFields()(object)
	}
	return object, nil
}

// slimVM keeps of the spec the run strategy and the matchers, and of the template the metadata, by which presets and profiles select.
func slimVM(vm *v1.VirtualMachine) {
	slimMeta(&vm.ObjectMeta)
	spec := v1.VirtualMachineSpec{
		Running:     vm.Spec.Running, //nolint:staticcheck // 'running' counts
		RunStrategy: vm.Spec.RunStrategy, Instancetype: vm.Spec.Instancetype, Preference: vm.Spec.Preference,
	}
	if template := vm.Spec.Template; template != nil {
		slimMeta(&template.ObjectMeta)
		spec.Template = &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: template.ObjectMeta}
	}
	vm.Spec = spec
}

// slimVMI keeps of the status what VMs, their hardware records and their starts depend on. Of the spec of a VMI that exists only the grace period is read,
// which its owner may shorten, and for metrics what the guest has.
func slimVMI(vmi *v1.VirtualMachineInstance) {
	_, recorded := vmi.Annotations[v1alpha1.AnnotationFrontend]
	if recorded {
		vmi.Annotations[v1alpha1.AnnotationFrontend] = "" // some KiB, of which a cache needs to know that they are there
	}
	slimMeta(&vmi.ObjectMeta)
	spec := v1.VirtualMachineInstanceSpec{TerminationGracePeriodSeconds: vmi.Spec.TerminationGracePeriodSeconds}
	if cpu := vmi.Spec.Domain.CPU; cpu != nil {
		spec.Domain.CPU = &v1.CPU{Cores: cpu.Cores, Sockets: cpu.Sockets, Threads: cpu.Threads}
	}
	if memory := vmi.Spec.Domain.Memory; memory != nil && memory.Guest != nil {
		spec.Domain.Memory = &v1.Memory{Guest: memory.Guest}
	}
	vmi.Spec = spec
	vmi.Status = v1.VirtualMachineInstanceStatus{
		Phase: vmi.Status.Phase, PhaseTransitionTimestamps: vmi.Status.PhaseTransitionTimestamps, NodeName: vmi.Status.NodeName, Conditions: vmi.Status.Conditions,
		// What internal/vmipod compares with what it sees: a field that is missing here it would write again and again.
		ActivePods: vmi.Status.ActivePods, Interfaces: vmi.Status.Interfaces, Machine: vmi.Status.Machine, QOSClass: vmi.Status.QOSClass,
		LauncherContainerImageVersion: vmi.Status.LauncherContainerImageVersion, RuntimeUser: vmi.Status.RuntimeUser,
		GuestOSInfo: vmi.Status.GuestOSInfo, VolumeStatus: targets(vmi.Status.VolumeStatus, recorded),
	}
}

// targets are the disks that a domain has. The record of a guest that KubeVirt runs follows them.
func targets(volumes []v1.VolumeStatus, recorded bool) (kept []v1.VolumeStatus) {
	if !recorded {
		return nil
	}
	for i := range volumes {
		kept = append(kept, v1.VolumeStatus{Name: volumes[i].Name, Target: volumes[i].Target})
	}
	return kept
}

// slimContent keeps the name of the snapshot, and of the VM what names revisions, which the collector keeps. The claims that it describes have annotations of
// tenants.
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

// slimPod keeps of the pod of a guest where it is and what became of it.
func slimPod(pod *corev1.Pod) {
	pod.ManagedFields, pod.Annotations = nil, nil
	keepShortest(pod.Labels, mostLabels)
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
}

// slimNode keeps the labels of a node, which HostProfiles select, and what says that it is off: its taints, and condition Ready without its times.
func slimNode(node *corev1.Node) {
	var status corev1.NodeStatus
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	node.ManagedFields, node.Annotations, node.OwnerReferences, node.Status = nil, nil, nil, status
	node.Spec = corev1.NodeSpec{Taints: node.Spec.Taints}
}

// slimGuestPod keeps that hardware is there, but not the domain, which is the largest part, nor the facts that it was made of. No status has the host name.
func slimGuestPod(of *v1alpha1.GuestPod) {
	of.ManagedFields, of.Annotations = nil, nil
	if of.Spec.Hardware != nil {
		of.Spec.Hardware.Frontend, of.Status.Facts = "", nil
	}
	if of.Status.Agent != nil {
		of.Status.Agent.Hostname = ""
	}
	if of.Spec.Clients != nil { // the same for all guests
		of.Spec.Clients.Authorities = unique.Make(of.Spec.Clients.Authorities).Value()
	}
}

// catalogKinds are the kinds of which VMs take revisions, and which caches have untyped.
var catalogKinds = append(instancetype.CatalogKinds(), v1alpha1.KindGuestProfile, v1alpha1.KindClusterGuestProfile)

// slimCatalog keeps of an instancetype, preference or profile what VMs are made of and policies read, if that is not too large. The copy of the object that
// kubectl apply makes goes.
func slimCatalog(of *unstructured.Unstructured) {
	if annotations := of.GetAnnotations(); annotations != nil {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		of.SetAnnotations(annotations)
	}
	revision.Bound(of)
}

const (
	// mostAnnotations bounds what a cache keeps of the annotations of one object, in bytes. A VM that is pinned to 256 profiles has 16 KiB of them.
	mostAnnotations = 32 << 10
	// mostLabels bounds what a cache keeps of the labels: 512 may have 190 KiB. Of VMs and VMIs they are read from a cache to count whom a profile selects.
	mostLabels = 32 << 10
)

// slimMeta keeps the annotations of Kiln and KubeVirt: their domains are kilnvm.io, kubevirt.io and subdomains of it. A tenant may write 256 KiB of these too.
func slimMeta(of *metav1.ObjectMeta) {
	of.ManagedFields = nil
	maps.DeleteFunc(of.Annotations, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return domain != "kilnvm.io" && domain != "kubevirt.io" && !strings.HasSuffix(domain, ".kubevirt.io")
	})
	keepShortest(of.Annotations, mostAnnotations)
	keepShortest(of.Labels, mostLabels)
}

// keepShortest deletes the entries with the longest values until the rest has so many bytes at most.
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

// slimNamespace keeps labels and annotations, which selectors and policies read, but for the copy of the object that kubectl apply makes.
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
