package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bloated is metadata with as many annotations as an object may have, also below domains of Kiln and KubeVirt.
func bloated() metav1.ObjectMeta {
	of := metav1.ObjectMeta{Name: "web", Namespace: "team", Annotations: map[string]string{v1alpha1.AnnotationPins: "{}"}}
	for i := range 8 {
		for _, domain := range []string{"kilnvm.io", "kubevirt.io", "x.kubevirt.io", "example.org"} {
			of.Annotations[fmt.Sprintf("%s/a%d", domain, i)] = strings.Repeat("x", 8000)
		}
	}
	return of
}

// TestCachesBoundAnnotations: what a cache keeps of an object that a tenant writes has a bound, and the annotations that Kiln writes are within it.
func TestCachesBoundAnnotations(t *testing.T) {
	untyped := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kilnvm.io/v1alpha1", "kind": v1alpha1.KindGuestProfile}}
	untyped.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 200_000)})
	for _, object := range []client.Object{
		&v1.VirtualMachine{ObjectMeta: bloated()}, &v1.VirtualMachineInstance{ObjectMeta: bloated()}, &v1.VirtualMachineInstancePreset{ObjectMeta: bloated()},
		&snapshot.VirtualMachineSnapshot{ObjectMeta: bloated()}, &snapshot.VirtualMachineSnapshotContent{ObjectMeta: bloated()},
		&snapshot.VirtualMachineRestore{ObjectMeta: bloated()}, &clone.VirtualMachineClone{ObjectMeta: bloated()}, untyped,
	} {
		slim, err := Slim(object)
		if err != nil {
			t.Fatal(err)
		}
		kept := slim.(client.Object).GetAnnotations()
		text, err := json.Marshal(kept)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > mostAnnotations+1024 {
			t.Errorf("%T: %d bytes of annotations are kept", object, len(text))
		}
		if _, found := kept[v1alpha1.AnnotationPins]; !found && object != client.Object(untyped) {
			t.Errorf("%T: the pins go", object)
		}
	}
}

// TestCachesBoundLabels: an object may have labels without a bound, of which caches keep the shortest.
func TestCachesBoundLabels(t *testing.T) {
	of := func() metav1.ObjectMeta {
		meta := metav1.ObjectMeta{Name: "web", Namespace: "team", Labels: map[string]string{"app": "web"}}
		for i := range 512 {
			meta.Labels[fmt.Sprintf("%s.example/%d", strings.Repeat("x", 240), i)] = strings.Repeat("y", 63)
		}
		return meta
	}
	templated := &v1.VirtualMachine{ObjectMeta: of()}
	templated.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: of()}
	for _, object := range []client.Object{
		templated, &v1.VirtualMachineInstance{ObjectMeta: of()}, &v1.VirtualMachineInstancePreset{ObjectMeta: of()}, &corev1.Pod{ObjectMeta: of()},
		&metav1.PartialObjectMetadata{ObjectMeta: of()},
	} {
		slim, err := Slim(object)
		if err != nil {
			t.Fatal(err)
		}
		kept := []map[string]string{slim.(client.Object).GetLabels()}
		if object == client.Object(templated) {
			kept = append(kept, templated.Spec.Template.ObjectMeta.Labels)
		}
		for _, labels := range kept {
			if text, err := json.Marshal(labels); err != nil || len(text) > mostLabels+1024 || labels["app"] != "web" {
				t.Errorf("%T: %d bytes of labels are kept, app is '%s': %v", object, len(text), labels["app"], err)
			}
		}
	}
}

// TestCachesKeepNoContentOfSnapshots: patches of 256 KiB, labels of 190 KiB and the claims of a content are not kept. What tells whose an object is stays.
func TestCachesKeepNoContentOfSnapshots(t *testing.T) {
	large := strings.Repeat("x", 200_000)
	meta := metav1.ObjectMeta{Name: "a", Namespace: "team", UID: "u", Labels: map[string]string{"a": large},
		OwnerReferences: []metav1.OwnerReference{{Name: "owner"}}, Finalizers: []string{"kilnvm.io/x"}}
	name := "snapshot"
	content := &snapshot.VirtualMachineSnapshotContent{ObjectMeta: meta, Status: &snapshot.VirtualMachineSnapshotContentStatus{
		VolumeSnapshotStatus: []snapshot.VolumeSnapshotStatus{{VolumeSnapshotName: large}}}}
	content.Spec.VirtualMachineSnapshotName = &name
	content.Spec.VolumeBackups = []snapshot.VolumeBackup{{PersistentVolumeClaim: snapshot.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": large}}}}}
	for _, object := range []client.Object{
		content,
		&snapshot.VirtualMachineSnapshot{ObjectMeta: meta, Spec: snapshot.VirtualMachineSnapshotSpec{Source: corev1.TypedLocalObjectReference{Name: large}},
			Status: &snapshot.VirtualMachineSnapshotStatus{Error: &snapshot.Error{Message: &large}}},
		&snapshot.VirtualMachineRestore{ObjectMeta: meta, Spec: snapshot.VirtualMachineRestoreSpec{Patches: []string{large}},
			Status: &snapshot.VirtualMachineRestoreStatus{DeletedDataVolumes: []string{large}}},
		&clone.VirtualMachineClone{ObjectMeta: meta, Spec: clone.VirtualMachineCloneSpec{Patches: []string{large}, LabelFilters: []string{large}},
			Status: clone.VirtualMachineCloneStatus{TargetName: &large}},
	} {
		slim, err := Slim(object)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(slim)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 1024 {
			t.Errorf("%T: %d bytes are kept", object, len(text))
		}
		kept := slim.(client.Object)
		if kept.GetName() != "a" || kept.GetUID() != "u" || len(kept.GetOwnerReferences()) != 1 || len(kept.GetFinalizers()) != 1 {
			t.Errorf("%T: it is not known any more: %s", object, text)
		}
	}
	if content.Spec.VirtualMachineSnapshotName == nil {
		t.Error("the content does not name its snapshot any more")
	}
}

// TestCachesNameOversizedObjects: of an instancetype that is larger than what admission allows a cache has the name, and nobody takes that for the
// instancetype.
func TestCachesNameOversizedObjects(t *testing.T) {
	of := func(kind string, gpus int) *unstructured.Unstructured {
		list := make([]any, gpus)
		for i := range list {
			list[i] = map[string]any{"name": fmt.Sprintf("gpu%d", i), "deviceName": "example.org/gpu"}
		}
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind,
			"metadata": map[string]any{"name": "large", "namespace": "team", "uid": "u"}, "spec": map[string]any{"gpus": list}}}
	}
	for _, kind := range catalogKinds {
		large := of(kind, 48_000)
		if _, err := Slim(large); err != nil {
			t.Fatal(err)
		}
		if large.Object["spec"] != nil || large.GetName() != "large" || large.GetUID() != "u" {
			t.Errorf("%s: the cache keeps %d bytes", kind, revision.CachedBytes(large.Object))
		}
		if _, err := revision.NewDraft("team", large); !errors.Is(err, revision.ErrOversized) || !strings.Contains(err.Error(), "make it smaller, or delete it") {
			t.Errorf("%s: %v, want the error of an object that is too large", kind, err)
		}
		small := of(kind, 512)
		if _, err := Slim(small); err != nil {
			t.Fatal(err)
		}
		if _, err := revision.NewDraft("team", small); err != nil {
			t.Errorf("%s as admission allows it: %v", kind, err)
		}
	}
	policy := of("GuestPolicy", 48_000)
	if _, err := Slim(policy); err != nil || policy.Object["spec"] == nil {
		t.Errorf("a policy loses its spec, and judges nothing: %v", err)
	}
}

// TestCachesKeepPlacements: a cache keeps what selects the nodes of a guest, except a text without a bound, and the CPU of a GuestHardware, whose features
// equal CPUs share.
func TestCachesKeepPlacements(t *testing.T) {
	guest := v1.VirtualMachineInstanceSpec{Architecture: "amd64", NodeSelector: map[string]string{"pool": "old"},
		Tolerations: []corev1.Toleration{{Key: "gpu"}}, Hostname: "web", Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{},
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}}}}
	want := guest.DeepCopy()
	want.Hostname, want.Affinity.PodAffinity = "", nil
	slimmed := func(spec v1.VirtualMachineInstanceSpec) v1.VirtualMachineInstanceSpec {
		t.Helper()
		vm := &v1.VirtualMachine{}
		vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{Spec: spec}
		_, first := Slim(vm)
		vmi := &v1.VirtualMachineInstance{Spec: spec}
		_, second := Slim(vmi)
		if err := errors.Join(first, second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(vm.Spec.Template.Spec, vmi.Spec); diff != "" {
			t.Errorf("VM and VMI (-VM +VMI):\n%s", diff)
		}
		return vmi.Spec
	}
	if diff := cmp.Diff(*want, slimmed(guest)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 20 {
		guest.Tolerations = append(guest.Tolerations, corev1.Toleration{Key: strings.Repeat("x", mostPlacement/10)})
	}
	if diff := cmp.Diff(v1.VirtualMachineInstanceSpec{Architecture: "amd64"}, slimmed(guest)); diff != "" {
		t.Errorf("a large one (-want +got):\n%s", diff)
	}

	newHardware := func(features ...string) *v1alpha1.GuestHardware {
		h := &v1alpha1.GuestHardware{ObjectMeta: bloated()}
		h.Spec.Hardware = &v1alpha1.HardwareRecord{Machine: "q35", CPU: &v1alpha1.GuestCPU{Model: "EPYC", Features: features}}
		h.Status.Boots, h.Status.Conditions = 3, []metav1.Condition{{Type: v1alpha1.ConditionCPUOffered}}
		if _, err := Slim(h); err != nil {
			t.Fatal(err)
		}
		if h.Spec.Hardware.Machine != "" || h.Status.Boots != 0 || len(h.Status.Conditions) != 1 || h.Spec.Hardware.CPU.Model != "EPYC" {
			t.Errorf("%+v", h)
		}
		return h
	}
	a, b, forged := newHardware("avx", "sse2"), newHardware("avx", "sse2"), newHardware("avx,sse2")
	if &a.Spec.Hardware.CPU.Features[0] != &b.Spec.Hardware.CPU.Features[0] {
		t.Error("equal features are kept twice")
	}
	if len(forged.Spec.Hardware.CPU.Features) != 1 {
		t.Errorf("a name with the separator becomes %q", forged.Spec.Hardware.CPU.Features)
	}
}

// TestNodesAreBounded: a node with 250 labels of its CPU takes some KiB of a cache beside others like it, and one with forged labels takes no more than the
// bound.
func TestNodesAreBounded(t *testing.T) {
	const nodes, labels = 1000, 250
	node := func(i int) *corev1.Node {
		of := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{corev1.LabelHostname: fmt.Sprint("node-", i)}}}
		for j := range labels {
			of.Labels[fmt.Sprintf("%sfeature-%d", v1alpha1.LabelCPUFeature, j)] = string([]byte("true")) // texts of their own, as from a decoder
		}
		return of
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := make([]any, nodes)
	for i := range nodes {
		var err error
		if kept[i], err = Slim(node(i)); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / nodes
	t.Logf("a node with %d labels takes %d bytes", labels, each)
	if each > 24<<10 {
		t.Errorf("a node with %d labels takes %d bytes", labels, each)
	}
	if got := len(kept[0].(*corev1.Node).Labels); got != labels+1 {
		t.Errorf("%d labels are left, want %d", got, labels+1)
	}
	forged := node(0)
	for i := range 20_000 {
		forged.Labels[fmt.Sprintf("%s%s-%d", v1alpha1.LabelCPUFeature, strings.Repeat("x", 50), i)] = "true"
	}
	if _, err := Slim(forged); err != nil {
		t.Fatal(err)
	}
	size := 0
	for key, value := range forged.Labels {
		size += len(key) + len(value)
	}
	if size > mostNodeLabels || size < mostNodeLabels/2 {
		t.Errorf("%d bytes of labels are left, want %d at most", size, mostNodeLabels)
	}
}
