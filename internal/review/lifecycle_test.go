package review

import (
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// TestLifecycles: what is obsolete refuses a VM that is created with it. Every VM that exists, and every VM that brings its pins, is left alone.
func TestLifecycles(t *testing.T) {
	size := func(name, metadata string) *unstructured.Unstructured {
		return untyped(t, "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\n"+
			"metadata: {name: "+name+metadata+"}\nspec: {cpu: {guest: 1}, memory: {guest: 1Gi}}\n")
	}
	gone := size("gone", ", labels: {kilnvm.io/lifecycle: obsolete}, annotations: {kilnvm.io/replaced-by: good}")
	ending := size("ending", `, annotations: {kilnvm.io/obsolete-after: "2027-01-01T00:00:00Z"}`)
	good, typed := size("good", ""), size("typo", ", labels: {kilnvm.io/lifecycle: obsolet}")
	revision := stored(t, gone)
	pinned := `{"instancetype":"` + revision.GetName() + `"}`
	with := func(instancetype string, annotations ...string) *v1.VirtualMachine {
		vm := parsed[v1.VirtualMachine](t, "metadata: {name: a, namespace: team}\nspec:\n  runStrategy: Halted\n  instancetype: "+instancetype+
			"\n  template: {spec: {domain: {devices: {}}}}\n")
		for i := 0; i < len(annotations); i += 2 {
			vm.Annotations = map[string]string{annotations[i]: annotations[i+1]}
		}
		return vm
	}
	const pins = "kilnvm.io/pins"
	year := func(y int) time.Time { return time.Date(y, 6, 1, 0, 0, 0, 0, time.UTC) }
	const obsolete, replaced = "vm/obsolete", "VirtualMachineClusterInstancetype 'gone' is obsolete: use 'good'"
	for _, test := range []struct {
		why      string
		vm, old  *v1.VirtualMachine
		stored   bool
		now      time.Time
		rule     string
		says     string
		warnings int
	}{
		{"a new VM of what is good", with("{name: good}"), nil, false, year(2026), "", "", 0},
		{"a new VM of what is obsolete", with("{name: gone}"), nil, false, year(2026), obsolete, replaced, 0},
		{"before the end", with("{name: ending}"), nil, false, year(2026), "", "obsolete after 2027-01-01T00:00:00Z", 1},
		{"after the end", with("{name: ending}"), nil, false, year(2028), obsolete, "without replacement", 0},
		{"a clock before all time", with("{name: ending}"), nil, false, time.Time{}, "", "is deprecated", 1},
		{"what cannot be read", with("{name: typo}"), nil, false, year(2026), "", "metadata.labels[kilnvm.io/lifecycle] has no effect: illegible", 1},
		{"a VM that is restored with its pins and revisions", with("{name: gone}", pins, pinned), nil, false, year(2026), "", "", 0},
		{"pins that lead nowhere make no VM old", with("{name: gone}", pins, `{"instancetype":"gone-0"}`), nil, false, year(2026), obsolete, replaced, 1},
		{"a revision by name, as backups have it", with("{name: gone, revisionName: " + revision.GetName() + "}"), nil, false, year(2026), "", "", 0},
		{"an edited VM", with("{name: gone}", pins, pinned), with("{name: gone}", pins, pinned), false, year(2026), "", "", 0},
		{"a VM that is moved to the current revision", with("{name: gone}", pins, ""), with("{name: gone}", pins, pinned), false, year(2026), "", replaced, 1},
		{"a VM that exists and is moved to it", with("{name: gone}"), with("{name: good}"), false, year(2026), "", replaced, 1},
		{"a VM that exists and was never pinned", with("{name: gone}"), with("{name: gone}"), false, year(2026), "", replaced, 1},
		{"a VM of a cluster that a person looks at", with("{name: gone}"), nil, true, year(2026), "", replaced, 1},
	} {
		t.Run(test.why, func(t *testing.T) {
			reviewer := Reviewer{
				Resolver:      resolve.Resolver{Cached: reading(t, gone, ending, good, typed, revision)},
				Configuration: config.Default, Now: func() time.Time { return test.now }, Stored: test.stored,
			}
			reviewed, err := reviewer.ReviewVM(t.Context(), test.vm, test.old, Asker{})
			if err != nil {
				t.Fatal(err)
			}
			var rules, mistakes []string
			for _, e := range reviewed.Errors {
				rules, mistakes = append(rules, e.Origin), append(mistakes, e.Error())
			}
			if strings.Join(rules, " ") != test.rule || len(reviewed.Warnings) != test.warnings {
				t.Errorf("refused by %v %v, warnings %q", rules, mistakes, reviewed.Warnings)
			}
			if all := strings.Join(append(mistakes, reviewed.Warnings...), "\n"); !strings.Contains(all, test.says) {
				t.Errorf("says %q, want '%s'", all, test.says)
			}
		})
	}
}
