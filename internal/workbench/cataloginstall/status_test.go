package cataloginstall

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/catalog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// joined returns the objects of several states.
func joined(states ...State) State {
	all := State{Namespace: "shop", Objects: map[catalog.Key]*unstructured.Unstructured{}}
	for _, s := range states {
		for key, object := range s.Objects {
			all.Objects[key] = object
		}
	}
	return all
}

// TestInstalled: a catalog has the version of its objects, two after an interruption, and the version of its obsolete objects only if it has no others.
func TestInstalled(t *testing.T) {
	obsolete := func(u *unstructured.Unstructured) {
		u.SetLabels(withEntry(u.GetLabels(), v1alpha1.LabelLifecycle, v1alpha1.LifecycleObsolete))
	}
	copied := func(u *unstructured.Unstructured) { u.SetManagedFields(nil) } // a user has copied an installed object
	const ofNamespace = "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineInstancetype\nmetadata: {name: own, namespace: shop}\n" +
		"spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}\n"
	one, two := InstalledVersion{"1.0.0", "sha256:1", 2}, InstalledVersion{"1.1.0", "sha256:2", 1}
	others := Installation{Name: "general", Version: "1.0.0", Digest: "sha256:1", Source: "oci://example.com/general"}
	for _, test := range []struct {
		why   string
		state State
		want  []Installed
	}{
		{"nothing", State{}, nil},
		{"one version", installed(first, catalogOf(t, sized("a", "1Gi"), sized("b", "1Gi"))),
			[]Installed{{Name: "general", Source: first.Source, Versions: []InstalledVersion{one}}}},
		{"interrupted", joined(installed(first, catalogOf(t, sized("a", "1Gi"), sized("b", "1Gi"))), installed(second, catalogOf(t, sized("c", "1Gi")))),
			[]Installed{{Name: "general", Source: first.Source, Versions: []InstalledVersion{one, two}}}},
		{"what the version before had", joined(installed(first, catalogOf(t, sized("a", "1Gi"), sized("b", "1Gi")), obsolete),
			installed(second, catalogOf(t, sized("c", "1Gi")))), []Installed{{Name: "general", Source: first.Source, Versions: []InstalledVersion{two}}}},
		{"only obsolete objects", installed(first, catalogOf(t, sized("a", "1Gi"), sized("b", "1Gi")), obsolete),
			[]Installed{{Name: "general", Source: first.Source, Versions: []InstalledVersion{one}}}},
		{"a copy", installed(first, catalogOf(t, sized("a", "1Gi")), copied), nil},
		{"of files", installed(Installation{Name: "own", Digest: "sha256:3"}, catalogOf(t, ofNamespace)),
			[]Installed{{Name: "own", OfNamespace: true, Versions: []InstalledVersion{{"", "sha256:3", 1}}}}},
		{"two repositories", joined(installed(first, catalogOf(t, sized("a", "1Gi"))), installed(others, catalogOf(t, sized("b", "1Gi")))),
			[]Installed{{Name: "general", Sources: []string{"oci://example.com/general", first.Source}, Versions: []InstalledVersion{one}}}},
	} {
		if diff := cmp.Diff(test.want, test.state.Installed()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.why, diff)
		}
	}
}

// TestDrift: what is missing, was edited or does not belong to the version drifted. An object that only waits for its removal did not.
func TestDrift(t *testing.T) {
	published := catalogOf(t, sized("a", "1Gi"), sized("b", "1Gi"), sized("gone", "1Gi"))
	state := joined(installed(first, catalogOf(t, sized("a", "1Gi"), sized("b", "2Gi"), sized("extra", "1Gi"))))
	changed, conflicts := state.Installed()[0].Drift(published, state)
	got := map[string]Change{}
	for _, action := range changed {
		got[action.Name] = action.Change
	}
	if diff := cmp.Diff(map[string]Change{"b": Update, "gone": Create, "extra": Delete}, got); diff != "" || len(conflicts) > 0 {
		t.Errorf("conflicts %v (-want +got)\n%s", conflicts, diff)
	}
	same := installed(first, published)
	if changed, conflicts := same.Installed()[0].Drift(published, same); len(changed)+len(conflicts) > 0 {
		t.Errorf("drift of nothing: %v %v", changed, conflicts)
	}
}
