package command

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// TestCachedNamespaces: a cache keeps what selectors and policies read of a namespace, and not the copies of the object in its metadata.
func TestCachedNamespaces(t *testing.T) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Labels: map[string]string{"team": "a"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		Annotations: map[string]string{"kept": "yes", corev1.LastAppliedConfigAnnotation: "{}"},
	}}
	got, err := slimNamespace(object)
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"kept": "yes"},
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	gone := cache.DeletedFinalStateUnknown{Key: "shop"} // informers pass it too
	if got, err := slimNamespace(gone); err != nil || got != any(gone) {
		t.Errorf("%v, %v; want what was given", got, err)
	}
}

// TestSlim: what is left is what the controller reads. Other annotations are a tenant's, of any size.
func TestSlim(t *testing.T) {
	meta := func(more map[string]string) metav1.ObjectMeta {
		annotations := map[string]string{"kilnvm.io/pins": "{}", "virtualmachineinstancepresets.admission.kubevirt.io/exclude": "true"}
		maps.Copy(annotations, more)
		return metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}, Annotations: annotations}
	}
	foreign := map[string]string{"notkubevirt.io/a": "large", "kilnvm.io.example.com/a": "large", "plain": "large", corev1.LastAppliedConfigAnnotation: "{}"}
	always := v1.RunStrategyAlways
	spec := func() v1.VirtualMachineSpec {
		return v1.VirtualMachineSpec{RunStrategy: &always, Instancetype: &v1.InstancetypeMatcher{Name: "small"}, Preference: &v1.PreferenceMatcher{Name: "linux"}}
	}
	status := v1.VirtualMachineInstanceStatus{Phase: v1.Running, NodeName: "node",
		Conditions:                []v1.VirtualMachineInstanceCondition{{Type: v1.VirtualMachineInstanceReady}},
		PhaseTransitionTimestamps: []v1.VirtualMachineInstancePhaseTransitionTimestamp{{Phase: v1.Running}},
		Interfaces:                []v1.VirtualMachineInstanceNetworkInterface{{Name: "default"}}, ActivePods: map[types.UID]string{"pod": "node"},
		GuestOSInfo: v1.VirtualMachineInstanceGuestOSInfo{ID: "debian"}}
	vm := &v1.VirtualMachine{ObjectMeta: meta(foreign), Spec: spec(), Status: v1.VirtualMachineStatus{Ready: true}}
	vm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: meta(foreign), Spec: v1.VirtualMachineInstanceSpec{Hostname: "shop"}}
	for range mostTemplates + 1 {
		vm.Spec.DataVolumeTemplates = append(vm.Spec.DataVolumeTemplates, v1.DataVolumeTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Name: "root", Annotations: foreign}, Spec: cdi.DataVolumeSpec{Source: &cdi.DataVolumeSource{}}})
	}
	wantVM := &v1.VirtualMachine{ObjectMeta: meta(nil), Spec: spec(), Status: v1.VirtualMachineStatus{Ready: true}}
	wantVM.Spec.DataVolumeTemplates = slices.Repeat([]v1.DataVolumeTemplateSpec{{ObjectMeta: metav1.ObjectMeta{Name: "root"}}}, mostTemplates)
	wantVM.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: meta(nil)}
	vmi := &v1.VirtualMachineInstance{ObjectMeta: meta(foreign), Spec: v1.VirtualMachineInstanceSpec{Hostname: "shop"}, Status: status}
	memory := resource.MustParse("1Gi")
	vmi.Spec.Domain = v1.DomainSpec{CPU: &v1.CPU{Cores: 2, Model: "host-model"}, Memory: &v1.Memory{Guest: &memory, Hugepages: &v1.Hugepages{}},
		Devices: v1.Devices{Disks: []v1.Disk{{Name: "root"}}}}
	guest := v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{CPU: &v1.CPU{Cores: 2}, Memory: &v1.Memory{Guest: &memory}}}
	vmi.Status.VolumeStatus = []v1.VolumeStatus{{Name: "default"}}
	held := metav1.ObjectMeta{Name: "guest-shop", Finalizers: []string{v1alpha1.FinalizerGuestPod}, Annotations: foreign}
	pod := &corev1.Pod{ObjectMeta: held, Spec: corev1.PodSpec{NodeName: "node", Hostname: "shop"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	wantPod := pod.DeepCopy()
	wantPod.Annotations, wantPod.Spec.Hostname = nil, ""
	reported := map[string]string{v1alpha1.AnnotationMachineTypes: "q35"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "a"},
		Annotations: map[string]string{"of": "others", v1alpha1.AnnotationMachineTypes: "q35"}},
		Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24", Taints: []corev1.Taint{{Key: "off"}}},
		Status: corev1.NodeStatus{Phase: corev1.NodeRunning, Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}}}}
	wantNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "a"}, Annotations: reported},
		Spec:   corev1.NodeSpec{Taints: node.Spec.Taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	forged := node.DeepCopy()
	forged.Annotations[v1alpha1.AnnotationMachineTypes] = strings.Repeat("q35,", 10<<10)
	wantForged := wantNode.DeepCopy()
	wantForged.Annotations = nil
	waits := &v1alpha1.GuestPod{Status: v1alpha1.GuestPodStatus{Facts: &v1alpha1.GuestFacts{Machine: "pc-q35-10.0"}}}
	starts := waits.DeepCopy()
	starts.Spec.Hardware = &v1alpha1.GuestPodHardware{Frontend: "<domain/>", Digest: "d"}
	wantStarts := &v1alpha1.GuestPod{Spec: v1alpha1.GuestPodSpec{Hardware: &v1alpha1.GuestPodHardware{Digest: "d"}}}
	starts.Status.Agent = &v1alpha1.GuestAgent{OS: &v1alpha1.GuestOS{ID: "debian"}, Hostname: "shop", Interfaces: []v1alpha1.GuestInterface{{MAC: "m"}}}
	wantStarts.Status.Agent = &v1alpha1.GuestAgent{OS: &v1alpha1.GuestOS{ID: "debian"}, Interfaces: []v1alpha1.GuestInterface{{MAC: "m"}}}
	owners := []metav1.OwnerReference{{Kind: "ConfigMap", Name: "c"}, {Kind: "DataVolume", Name: "root", Controller: new(true)}}
	owned := metav1.ObjectMeta{Name: "root", OwnerReferences: owners, Finalizers: []string{"f"}, Annotations: foreign}
	wantOwned := metav1.ObjectMeta{Name: "root", OwnerReferences: owners[1:]}
	claim := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PersistentVolumeClaim", APIVersion: "v1"}, ObjectMeta: owned}
	labelled := &metav1.PartialObjectMetadata{ObjectMeta: meta(foreign)}
	for _, test := range []struct{ from, want any }{
		{pod, wantPod}, {node, wantNode}, {forged, wantForged}, {waits, waits.DeepCopy()}, {starts, wantStarts},
		{vm, wantVM}, {vmi, &v1.VirtualMachineInstance{ObjectMeta: meta(nil), Spec: guest, Status: status}},
		{&v1.VirtualMachineInstance{ObjectMeta: meta(map[string]string{v1alpha1.AnnotationFrontend: "{}"}),
			Status: v1.VirtualMachineInstanceStatus{VolumeStatus: []v1.VolumeStatus{{Name: "data", Target: "sda", Message: "plugged in"}}}},
			&v1.VirtualMachineInstance{ObjectMeta: meta(map[string]string{v1alpha1.AnnotationFrontend: ""}),
				Status: v1.VirtualMachineInstanceStatus{VolumeStatus: []v1.VolumeStatus{{Name: "data", Target: "sda"}}}}},
		{labelled, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}},
		{claim, &metav1.PartialObjectMetadata{TypeMeta: claim.TypeMeta, ObjectMeta: wantOwned}},
		{&metav1.PartialObjectMetadata{ObjectMeta: owned}, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "root"}}},
		{&cdi.DataVolume{ObjectMeta: owned, Spec: cdi.DataVolumeSpec{Checkpoints: make([]cdi.DataVolumeCheckpoint, 9)},
			Status: cdi.DataVolumeStatus{Phase: cdi.Pending, Progress: "1%", Conditions: []cdi.DataVolumeCondition{{Type: cdi.DataVolumeReady},
				{Type: cdi.DataVolumeBound, Status: corev1.ConditionFalse, Reason: "r", Message: "m", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}}},
			&cdi.DataVolume{ObjectMeta: wantOwned, Status: cdi.DataVolumeStatus{Phase: cdi.Pending, Conditions: []cdi.DataVolumeCondition{
				{Type: cdi.DataVolumeBound, Status: corev1.ConditionFalse, Reason: "r", Message: "m"}}}}},
		{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: maps.Clone(foreign), ManagedFields: vm.ManagedFields}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: foreign}}},
	} {
		got, err := Slim(test.from)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%T: %v (-want +got):\n%s", test.from, err, diff)
		}
	}
}
