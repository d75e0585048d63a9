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

// TestUsagesOfProfiles: the revision of a ClusterGuestProfile lies in the namespace of its VMs, and the profile in none. Profiles and bases are in use.
func TestUsagesOfProfiles(t *testing.T) {
	profile := func(kind, namespace, hostname string) *unstructured.Unstructured {
		metadata := map[string]any{"name": "p"}
		if namespace != "" {
			metadata["namespace"] = namespace
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kilnvm.io/v1alpha1", "kind": kind, "metadata": metadata,
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"hostname": hostname}}},
		}}
	}
	snapshot := func(object *unstructured.Unstructured) Draft {
		d, err := NewDraft("team", object)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const namespaced, cluster = v1alpha1.KindGuestProfile, v1alpha1.KindClusterGuestProfile
	current, outdated, base := snapshot(profile(namespaced, "team", "now")), snapshot(profile(namespaced, "team", "before")), snapshot(profile(cluster, "", "now"))
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "team", Annotations: map[string]string{
		v1alpha1.AnnotationPins: `{"presets":[],"profiles":["` + outdated.Name + `"],"bases":["` + base.Name + `"]}`}}}
	c := server(t, []client.Object{
		current.Object(), outdated.Object(), base.Object(), vm, profile(namespaced, "team", "now"), profile(cluster, "", "now"),
	}...)
	got, err := Usages(t.Context(), c, "team")
	want := []Usage{
		{Namespace: "team", Revision: base.Name, Kind: cluster, Name: "p", State: Current, VMs: []string{"a"}},
		{Namespace: "team", Revision: current.Name, Kind: namespaced, Name: "p", State: Current},
		{Namespace: "team", Revision: outdated.Name, Kind: namespaced, Name: "p", State: Outdated, VMs: []string{"a"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	found, err := listReferences(t.Context(), c)
	if err != nil || !found.contains(outdated.Object()) || !found.contains(base.Object()) || found.contains(current.Object()) {
		t.Errorf("the collector keeps %v, %v; want what the VM is pinned to", found, err)
	}
}
