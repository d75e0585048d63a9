package presetmigration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/test/reviewed"
	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const fast = `apiVersion: kubevirt.io/v1
kind: VirtualMachineInstancePreset
metadata: {name: fast, namespace: shop}
spec:
  selector: {matchLabels: {tier: web}}
  domain: {cpu: {cores: 4, model: host-passthrough}, devices: {watchdog: {name: dog, i6300esb: {action: reset}}}}
`

// labelled is a VM that preset 'fast' matches, with more fields of its domain.
func labelled(name, domain string) string {
	return `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: ` + name + `, namespace: shop}
spec:
  runStrategy: Always
  template:
    metadata: {labels: {tier: web}}
    spec: {domain: {memory: {guest: 1Gi}, devices: {}` + domain + `}}
`
}

// guestOf is what became of one guest.
func guestOf(t *testing.T, done Result, name string) Guest {
	t.Helper()
	for _, g := range done.Guests {
		if strings.HasSuffix(g.Object, "/"+name) {
			return g
		}
	}
	t.Fatalf("no guest '%s' in %+v", name, done.Guests)
	return Guest{}
}

func TestMigratedGuests(t *testing.T) {
	t.Parallel()
	excluded := strings.Replace(labelled("excluded", ""), "metadata: {labels:",
		`metadata: {annotations: {virtualmachineinstancepresets.admission.kubevirt.io/exclude: "true"}, labels:`, 1)
	elsewhere := strings.Replace(labelled("elsewhere", ""), "tier: web", "tier: db", 1)
	unknown := strings.Replace(labelled("unknown", ""), "  template:", "  instancetype: {name: none}\n  template:", 1)
	refused := labelled("refused", ", cpu: {cores: 2, threads: 0, model: 'no such \\n model'}, ioThreadsPolicy: none")
	done := migrated(t, reviewed.Load(t, fast, labelled("plain", ""), labelled("modelled", ", cpu: {cores: 2}"),
		labelled("featured", ", cpu: {features: [{name: vmx}]}"),
		labelled("whole", ", cpu: {cores: 2, model: host-model}"), excluded, elsewhere, unknown, refused), Options{})
	for name, want := range map[string]string{
		"plain": "equal [fast]", "excluded": "equal []", "elsewhere": "equal []", "unknown": "unknown []", "refused": "rejected []",
		"whole":    "equal [fast]", // the watchdog; the CPU is its own
		"modelled": "differs [fast]", "featured": "differs [fast]",
	} {
		if g := guestOf(t, done, name); g.State+" ["+strings.Join(g.Presets, " ")+"]" != want {
			t.Errorf("%s: %s %v %+v %v, want %s", name, g.State, g.Presets, g.Fields, g.Causes, want)
		}
	}
	modelled := guestOf(t, done, "modelled")
	field := Field{Field: "spec.domain.cpu.model", Before: `"host-model"`, After: `"host-passthrough"`, Origin: modelled.Fields[0].Origin,
		Reason: "preset fast fills spec.domain.cpu where the VMI has nothing of it, and the VMI has spec.domain.cpu.cores (user)"}
	if diff := cmp.Diff([]Field{field}, modelled.Fields); diff != "" || !strings.HasPrefix(field.Origin, "GuestProfile fast") {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := (&Remedy{Fields: []RemedyField{{"spec.domain.cpu.model", `"host-model"`}}}); !cmp.Equal(want, modelled.Remedy) {
		t.Errorf("remedy %+v, want %+v", modelled.Remedy, want)
	}
}

// TestRemediesHelp: a VM with what its remedy says has the VMI that it had before; one that cannot be written down is excluded.
func TestRemediesHelp(t *testing.T) {
	t.Parallel()
	timers := strings.Replace(fast, "domain: {", "domain: {clock: {timer: {pit: {tickPolicy: delay}}}, ", 1)
	given := labelled("web", ", clock: {timer: {hpet: {present: false}}}")
	before := migrated(t, reviewed.Load(t, timers, given), Options{}).Guests[0]
	if before.State != Differs || before.Remedy == nil || !before.Remedy.Exclude {
		t.Fatalf("want a VM that must be excluded: %+v", before)
	}
	var vm map[string]any
	if err := yaml.Unmarshal([]byte(given), &vm); err != nil {
		t.Fatal(err)
	}
	set := func(value any, path ...string) {
		if err := unstructured.SetNestedField(vm, value, append([]string{"spec", "template"}, path...)...); err != nil {
			t.Fatal(err)
		}
	}
	set("true", "metadata", "annotations", "virtualmachineinstancepresets.admission.kubevirt.io/exclude")
	for _, f := range before.Remedy.Fields {
		var value any
		if json.Unmarshal([]byte(f.Value), &value) != nil {
			t.Fatalf("%s is no JSON", f.Value)
		}
		set(value, strings.Split(f.Field, ".")...)
	}
	changed, err := yaml.Marshal(vm)
	if err != nil {
		t.Fatal(err)
	}
	with := reviewed.Guest(t, new(workbench.Bench), reviewed.Load(t, string(changed))).Guest.Explicit
	without := reviewed.Guest(t, new(workbench.Bench), reviewed.Load(t, timers, given)).Guest.Explicit
	if diff := cmp.Diff(without.Spec, with.Spec); diff != "" {
		t.Errorf("(-with presets +excluded):\n%s", diff)
	}
}

// TestMigrationIsStable: whatever the order of the objects, and however often, the answer has the same bytes. What was given stays as it is.
func TestMigrationIsStable(t *testing.T) {
	t.Parallel()
	first, second := "", strings.NewReplacer("name: fast", "name: also", "cores: 4, ", "").Replace(fast)
	all := []string{fast, second, labelled("a", ""), labelled("b", ", cpu: {cores: 2}"), labelled("c", "")}
	for range 3 {
		in := reviewed.Load(t, all...)
		var given []*unstructured.Unstructured
		for _, object := range in.Named {
			given = append(given, object.DeepCopy())
		}
		for range 2 {
			raw, err := json.Marshal(migrated(t, in, Options{}))
			if err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = string(raw)
			} else if diff := cmp.Diff(first, string(raw)); diff != "" {
				t.Errorf("another answer:\n%s", diff)
			}
		}
		for i, object := range in.Named {
			if diff := cmp.Diff(given[i].Object, object.Object); diff != "" {
				t.Errorf("%s was changed:\n%s", object.Name(), diff)
			}
		}
		slices.Reverse(all)
	}
}

// TestPresetsThatHaveNoProfile: what fills nothing gives nothing, and a preset that cannot be read stays one.
func TestPresetsThatHaveNoProfile(t *testing.T) {
	t.Parallel()
	const begin = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\nmetadata: {name: p, namespace: shop}\nspec: "
	for _, test := range []struct {
		why, preset   string
		leftOut       []string
		causes        int
		profile       bool
		state, wanted string
	}{
		{"no domain", `{selector: {}}`, nil, 0, false, Equal, ""},
		{"an empty domain", `{selector: {}, domain: {devices: {}}}`, nil, 0, false, Equal, ""},
		{"what presets do not cover", `{selector: {}, domain: {devices: {rng: {}}, memory: {guest: 9Gi}}}`,
			[]string{"spec.domain.devices.rng", "spec.domain.memory"}, 0, false, Equal, ""},
		{"firmware alone", `{selector: {}, domain: {devices: {}, firmware: {bootloader: {efi: {}}}}}`, []string{"spec.domain.firmware"}, 0, false, Equal, ""},
		{"a selector of all", `{selector: {}, domain: {devices: {}, ioThreadsPolicy: auto}}`, nil, 0, true, Equal, `"selector":{}`},
		{"a selector that cannot be read", `{selector: {matchExpressions: [{key: a, operator: Like}]}, domain: {devices: {}, ioThreadsPolicy: auto}}`,
			nil, 1, false, Rejected, ""},
	} {
		done := migrated(t, reviewed.Load(t, begin+test.preset+"\n", labelled("web", "")), Options{})
		p := done.Presets[0]
		if test.causes == 0 && done.Guests[0].State != test.state || (len(p.Causes) > 0) != (test.causes > 0) || (p.Profile != nil) != test.profile {
			t.Errorf("%s: %+v %+v", test.why, p, done.Guests[0])
		}
		for i, field := range test.leftOut {
			if len(p.LeftOut) != len(test.leftOut) || !strings.HasPrefix(p.LeftOut[i], field+": ") {
				t.Errorf("%s: left out %q, want %q", test.why, p.LeftOut, test.leftOut)
			}
		}
		if raw, err := json.Marshal(p.Profile); err != nil || !strings.Contains(string(raw), test.wanted) {
			t.Errorf("%s: %s has no %s", test.why, raw, test.wanted)
		}
	}
}

// TestMigrationOfTheSeedsExample: the published example of a preset sets memory, which no preset fills. Its VMI is the same without it.
func TestMigrationOfTheSeedsExample(t *testing.T) {
	t.Parallel()
	file := filepath.Join(samples.Shared(t), "examples", "vmi-preset-small.yaml")
	if _, err := os.Stat(file); samples.Shared(t) == "" || err != nil {
		t.Skip("the published examples are not here: KILN_SHARED names no folder with them, and there is no '../shared' beside the repository")
	}
	in, err := manifest.Load(manifest.Files{Names: []string{file}, Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	guest := map[string]any{}
	if err := yaml.Unmarshal([]byte(strings.Replace(labelled("web", ""), "tier: web", "kubevirt.io/vmPreset: vmi-preset-small", 1)), &guest); err != nil {
		t.Fatal(err)
	}
	done := migrated(t, inputsOf(t, in.Named[0].Object, guest), Options{})
	if p := done.Presets[0]; p.Profile != nil || len(p.LeftOut) != 1 || !strings.HasPrefix(p.LeftOut[0], "spec.domain.memory: ") {
		t.Errorf("%+v", p)
	}
	if g := done.Guests[0]; g.State != Equal || !g.Rendered {
		t.Errorf("%+v", g)
	}
}

// TestMigrationOfPinnedVMs: a pin of presets is left aside, so that what is compared is what a repin would give. It is reported.
func TestMigrationOfPinnedVMs(t *testing.T) {
	t.Parallel()
	old := unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.Replace(fast, "cores: 4", "cores: 2", 1)), &old.Object); err != nil {
		t.Fatal(err)
	}
	draft := taken(t, "shop", &old)
	revision, err := runtime.DefaultUnstructuredConverter.ToUnstructured(draft.Object())
	if err != nil {
		t.Fatal(err)
	}
	revision["apiVersion"], revision["kind"] = "apps/v1", "ControllerRevision"
	var all []map[string]any
	pinned := strings.Replace(labelled("pinned", ""), "namespace: shop}", `namespace: shop, annotations: {kilnvm.io/pins: '{"presets":["`+draft.Name+`"]}'}}`, 1)
	for _, text := range []string{fast, pinned} {
		content := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &content); err != nil {
			t.Fatal(err)
		}
		all = append(all, content)
	}
	g := migrated(t, inputsOf(t, append(all, revision)...), Options{}).Guests[0]
	if g.State != Equal || !g.Pinned || !slices.Equal(g.Presets, []string{"fast"}) {
		t.Errorf("%+v", g)
	}
}

// TestProfileThatWouldBeReplaced: a profile that an administrator wrote is not overwritten without a word.
func TestProfileThatWouldBeReplaced(t *testing.T) {
	t.Parallel()
	first := migrated(t, reviewed.Load(t, fast), Options{}).Presets[0]
	own, err := yaml.Marshal(first.Profile)
	if err != nil || len(first.Warnings) > 0 {
		t.Fatal(err, first.Warnings)
	}
	for text, want := range map[string]int{string(own): 0, strings.Replace(string(own), "cores: 4", "cores: 5", 1): 1} {
		if done := migrated(t, reviewed.Load(t, fast, text), Options{}); len(done.Presets[0].Warnings) != want {
			t.Errorf("%d warnings, want %d: %q", len(done.Presets[0].Warnings), want, done.Presets[0].Warnings)
		}
	}
}

// taken is the revision of an object, as a namespace holds it.
func taken(t *testing.T, namespace string, object client.Object) revision.Draft {
	t.Helper()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	delete(raw, "status")
	draft, err := revision.NewDraft(namespace, &unstructured.Unstructured{Object: raw})
	if err != nil {
		t.Fatal(err)
	}
	return draft
}
