package resolve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/profile"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// commonOf is a ClusterGuestProfile with the CPU that its nodes have in common, after the controller has written its status.
func commonOf(t *testing.T, name, cpu string) *unstructured.Unstructured {
	t.Helper()
	object := profileOf(t, name, "{selector: {matchLabels: {app: web}}, commonCPU: {}}")
	object.Object["status"] = manifest(t, "{commonCPU: "+cpu+"}").Object
	return object
}

// TestCommonCPUIsPinned: a VM keeps the CPU that the nodes had in common when it was created, a new VM gets the current one, and a repin too.
func TestCommonCPUIsPinned(t *testing.T) {
	before, after := commonOf(t, "cluster-cpu", "{model: Skylake-Server, features: [aes, avx512f], nodes: 2}"),
		commonOf(t, "cluster-cpu", "{model: Haswell, features: [aes], nodes: 3}")
	limits := commonOf(t, "cluster-cpu", "{model: Haswell, features: [aes], nodes: 4, limitedBy: [{nodes: 1, names: [a]}]}")
	kept, now := pinsOfProfiles(t, before), pinsOfProfiles(t, after)
	if kept == now || now != pinsOfProfiles(t, limits) {
		t.Fatalf("revisions %s, %s, %s", kept, now, pinsOfProfiles(t, limits))
	}
	if text := string(storedData(t, before)); !strings.Contains(text, `"model":"Skylake-Server"`) || strings.Contains(text, "commonCPU") {
		t.Errorf("an earlier version cannot read %s", text)
	}
	for _, test := range []struct {
		why     string
		vm, old *v1.VirtualMachine
		live    *unstructured.Unstructured
		want    string
		model   string
	}{
		{"a new VM", labelled("web"), nil, before, kept, "Skylake-Server"},
		{"a new VM beside a weaker node", labelled("web"), nil, after, now, "Haswell"},
		{"a VM that was there before the weaker node", labelled("web", annotated(kept)), labelled("web", annotated(kept)), after, kept, "Skylake-Server"},
		{"it is restored", labelled("web", annotated(kept)), nil, after, kept, "Skylake-Server"},
		{"a repin", labelled("web", annotated(`{"presets":[],"profiles":""}`)), labelled("web", annotated(kept)), after, now, "Haswell"},
	} {
		r := Resolver{Cached: objects.New(scheme(t), test.live, stored(t, before), stored(t, after)), CompletesNew: true}
		resolution, err := r.VM(t.Context(), test.vm, test.old)
		if err != nil {
			t.Fatalf("%s: %v", test.why, err)
		}
		pin.Write(test.vm, resolution.Pins)
		if got := test.vm.Annotations[v1alpha1.AnnotationPins]; got != test.want {
			t.Errorf("%s: pins %s, want %s", test.why, got, test.want)
		}
		vmi := SelectableVMI(test.vm)
		if errs := profile.Fill(resolution.Profiles, vmi, profile.Observer{}); len(errs) > 0 || vmi.Spec.Domain.CPU == nil {
			t.Fatalf("%s: %v", test.why, errs)
		}
		want := &v1.CPU{Model: test.model, Features: []v1.CPUFeature{{Name: "aes", Policy: "require"}}}
		if test.model == "Skylake-Server" {
			want.Features = append(want.Features, v1.CPUFeature{Name: "avx512f", Policy: "require"})
		}
		if diff := cmp.Diff(want, vmi.Spec.Domain.CPU); diff != "" {
			t.Errorf("%s (-want +VMI):\n%s", test.why, diff)
		}
	}
}

// TestCommonCPUIsMissing: a new VM is refused until the nodes have a CPU in common, because it would be pinned without one. Other VMs do not wait. A file that
// an author wrote has no status, and its profile fills what else it has.
func TestCommonCPUIsMissing(t *testing.T) {
	missing, written := commonOf(t, "cluster-cpu", "{nodes: 0}"), commonOf(t, "cluster-cpu", "{}")
	delete(written.Object, "status")
	for _, test := range []struct {
		why     string
		app     string
		live    *unstructured.Unstructured
		ofFiles bool
		refused string
	}{
		{"selected", "web", missing, false, "spec.template.metadata.labels"},
		{"selected, and the controller has not seen the profile", "web", written, false, "spec.template.metadata.labels"},
		{"not selected", "db", missing, false, ""},
		{"files of a cluster", "web", missing, true, "spec.template.metadata.labels"},
		{"files of an author", "web", written, true, ""},
	} {
		r := Resolver{Cached: objects.New(scheme(t), test.live), CompletesNew: true, OfFiles: test.ofFiles}
		_, err := r.VM(t.Context(), labelled(test.app, annotated(`{"presets":[],"profiles":""}`)), labelled(test.app))
		check(t, test.why, err, test.refused, "")
	}
}

// storedData returns the data of the revision of a live object.
func storedData(t *testing.T, object *unstructured.Unstructured) []byte {
	t.Helper()
	raw, err := stored(t, object).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
