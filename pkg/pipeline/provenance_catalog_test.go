package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

// published are the preferences of a catalog that is not part of this repository.
func published(t *testing.T) []v1beta1.VirtualMachineClusterPreference {
	t.Helper()
	dir := os.Getenv("KILN_SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	files, err := filepath.Glob(filepath.Join(dir, "catalog", "*reference*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var found []v1beta1.VirtualMachineClusterPreference
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split("\n"+string(raw), "\n---\n") {
			p := decode[v1beta1.VirtualMachineClusterPreference](t, document)
			if p.Kind == "VirtualMachineClusterPreference" {
				found = append(found, p)
			}
		}
	}
	if len(found) == 0 {
		t.Skipf("no published preferences below '%s'; set KILN_SHARED to the directory that holds them", dir)
	}
	return found
}

// various is a guest with one device of each kind that preferences fill, some with a word of the user's own.
const various = `
metadata: {name: web, namespace: shop}
spec:
  template:
    spec:
      domain:
        memory: {guest: 16Gi}
        firmware: {bootloader: {bios: {}}}
        features: {acpi: {enabled: true}, hyperv: {spinlocks: {spinlocks: 4096}}}
        devices:
          disks: [{name: a}, {name: b, disk: {bus: sata}}, {name: c, cdrom: {}}]
          interfaces: [{name: default, masquerade: {}}]
          inputs: [{name: pen}]
      networks: [{name: default, pod: {}}]
      volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}, {name: c, emptyDisk: {capacity: 1Gi}}]
`

// TestWhatIsNotAppliedMakesNoDifference: each field of each published preference is taken away in turn. A field that makes a
// difference must not be said to have found nothing to fill; one that makes none must be listed, unless the guest has its value anyway.
func TestWhatIsNotAppliedMakesNoDifference(t *testing.T) {
	t.Parallel()
	applied, listed := 0, 0
	seen := map[string]bool{}
	for _, p := range published(t) {
		raw, err := json.Marshal(p.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if seen[string(raw)] {
			continue
		}
		seen[string(raw)] = true
		for name, manifest := range map[string]string{"sparse": explained, "various": various} {
			with, whole := preferring(t, manifest, raw), guestOf(t, manifest, raw)
			reasons := map[string]string{}
			for _, s := range with.NotApplied {
				reasons[s.Field] += s.Reason
			}
			for path, without := range eachWithout(t, raw) {
				changes := whole != guestOf(t, manifest, without)
				reason, told := reasons[path]
				switch {
				case changes && strings.HasPrefix(reason, "the guest has"):
					t.Errorf("%s on %s: %s makes a difference, but: %s", p.Name, name, path, reason)
				case changes:
					applied++
				case told:
					listed++
				case !had(t, with, raw, path):
					t.Errorf("%s on %s: %s makes no difference, and nobody says why", p.Name, name, path)
				}
			}
		}
	}
	t.Logf("%d different preferences: %d fields applied, %d listed as not applied", len(seen), applied, listed)
	if applied == 0 || listed == 0 {
		t.Error("one of the two never happened, so nothing was shown")
	}
}

// preferring explains a VM with a preference.
func preferring(t *testing.T, manifest string, preference []byte) Explanation {
	t.Helper()
	vm := decode[v1.VirtualMachine](t, manifest)
	return ExplainVM(&vm, preferred(t, preference))
}

func preferred(t *testing.T, preference []byte) Input {
	t.Helper()
	return Input{Cluster: config.Default(), Set: instancetype.Set{Preference: &instancetype.Preference{
		Source: instancetype.Source{Name: "p"}, Spec: decode[v1beta1.VirtualMachinePreferenceSpec](t, string(preference))}}}
}

// guestOf is the explicit spec alone, as text.
func guestOf(t *testing.T, manifest string, preference []byte) string {
	t.Helper()
	vm := decode[v1.VirtualMachine](t, manifest)
	vmi := Instance(&vm)
	Steps(vmi, preferred(t, preference), func(Origin) {})
	text, err := json.Marshal(vmi.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eachWithout is a preference without one of its leaves, by the leaf's path.
func eachWithout(t *testing.T, raw []byte) map[string][]byte {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	var visit func(at string, inside map[string]any)
	visit = func(at string, inside map[string]any) {
		for key, value := range inside {
			path := strings.TrimPrefix(at+"."+key, ".")
			if path == "annotations" || path == "requirements" {
				continue // these fill nothing in a spec
			}
			if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
				visit(path, inner)
				continue
			}
			if _, list := value.([]any); list {
				continue
			}
			delete(inside, key)
			smaller, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			inside[key] = value
			all[path] = smaller
		}
	}
	visit("", object)
	return all
}

// had tells whether the guest has the value of a field of the preference, whoever gave it.
func had(t *testing.T, e Explanation, raw []byte, path string) bool {
	t.Helper()
	var object any
	if err := yaml.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Split(path, ".") {
		object = object.(map[string]any)[key]
	}
	for _, target := range targets {
		below, found := strings.CutPrefix(path, target.preferred)
		for _, fact := range e.Fields {
			if found && within(target.guest+below, fact.Path) && (leaf{value: fact.Value}.text() == leaf{value: object}.text() || object == true) {
				return true
			}
		}
	}
	return object == false // a switch that asks for nothing
}
