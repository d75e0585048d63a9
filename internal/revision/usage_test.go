package revision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestUsages(t *testing.T) {
	size := func(name, memory string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterInstancetype", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"cpu": map[string]any{"guest": int64(1)}, "memory": map[string]any{"guest": memory}},
		}}
	}
	now, before, gone, unused := draft(t, "s", "2Gi"), draft(t, "s", "1Gi"), draft(t, "was", "1Gi"), draft(t, "u", "1Gi")
	marked := unused.Object()
	marked.Annotations = map[string]string{v1alpha1.AnnotationUnusedSince: "2026-01-01T00:00:00Z"}
	kubevirt, forged := draft(t, "s", "2Gi").Object(), draft(t, "u", "2Gi").Object()
	kubevirt.Name = "old-s-v1beta1-uid-1"
	kubevirt.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "old", UID: "x", Controller: new(true)}}
	forged.Name = draft(t, "u", "3Gi").Name
	pinned := func(name, pins string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "team", Annotations: map[string]string{v1alpha1.AnnotationPins: pins}}
	}
	recorded := &v1.VirtualMachine{ObjectMeta: pinned("a", `{"instancetype":"`+now.Name+`"}`)}
	recorded.Status.InstancetypeRef = &v1.InstancetypeStatusRef{ControllerRevisionRef: &v1.ControllerRevisionRef{Name: now.Name}}
	old := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "team"}}
	old.Status.InstancetypeRef = &v1.InstancetypeStatusRef{ControllerRevisionRef: &v1.ControllerRevisionRef{Name: kubevirt.Name}}
	obsolete := size("u", "1Gi")
	obsolete.SetLabels(map[string]string{v1alpha1.LabelLifecycle: v1alpha1.LifecycleObsolete})
	c := server(t, []client.Object{
		now.Object(), before.Object(), gone.Object(), marked, kubevirt, forged, recorded, old, size("s", "2Gi"), obsolete,
		&v1.VirtualMachine{ObjectMeta: pinned("b", `{"instancetype":"`+before.Name+`","presets":["`+gone.Name+`"]}`)},
		&v1.VirtualMachineInstance{ObjectMeta: pinned("b", `{"instancetype":"`+before.Name+`","preference":"lost"}`)},
	}...)
	for _, namespace := range []string{"team", ""} {
		got, err := Usages(t.Context(), c, namespace)
		if err != nil {
			t.Fatal(err)
		}
		const kind = "VirtualMachineClusterInstancetype"
		if diff := cmp.Diff([]Usage{
			{Namespace: "team", Revision: "lost", State: Missing, VMIs: []string{"b"}},
			{Namespace: "team", Revision: forged.Name, State: Missing},
			{Namespace: "team", Revision: kubevirt.Name, Kind: kind, Name: "s", State: Current, VMs: []string{"old"}},
			{Namespace: "team", Revision: now.Name, Kind: kind, Name: "s", State: Current, VMs: []string{"a"}},
			{Namespace: "team", Revision: before.Name, Kind: kind, Name: "s", State: Outdated, VMs: []string{"b"}, VMIs: []string{"b"}},
			{Namespace: "team", Revision: unused.Name, Kind: kind, Name: "u", State: Current, Lifecycle: "obsolete", UnusedSince: "2026-01-01T00:00:00Z"},
			{Namespace: "team", Revision: gone.Name, Kind: kind, Name: "was", State: Gone, VMs: []string{"b"}},
		}, got); diff != "" {
			t.Errorf("namespace '%s' (-want +got):\n%s", namespace, diff)
		}
	}
	configuration := map[string]any{"apiVersion": "kilnvm.io/v1alpha1", "kind": "ClusterConfiguration", "metadata": map[string]any{"name": "configuration"},
		"spec": map[string]any{"cpuModel": "Nehalem"}}
	recordedNow, err := NewDraft("cluster", &unstructured.Unstructured{Object: configuration})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), recordedNow.Object()); err != nil {
		t.Fatal(err)
	}
	if got, err := Usages(t.Context(), c, "cluster", configuration); err != nil || len(got) != 1 || got[0].State != Current {
		t.Errorf("the configuration in force: %v, %v; want it current", got, err)
	}
	if got, err := Usages(t.Context(), c, "cluster"); err != nil || len(got) != 1 || got[0].State == Current {
		t.Errorf("a configuration that is not told: %v, %v", got, err)
	}
	if got, err := Usages(t.Context(), c, "other"); err != nil || len(got) != 0 {
		t.Errorf("another namespace: %v, %v", got, err)
	}
}
