package workbench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/validate"
)

// vmWithDevices is a VM with these lines among its devices.
func vmWithDevices(devices string) string {
	return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec:\n  runStrategy: Halted\n  template:\n    spec:\n      domain:\n" +
		"        devices:\n" + devices
}

// loadText loads a file with this content.
func loadText(t testing.TB, name, text string) manifest.Inputs {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := manifest.Load(manifest.Files{Names: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// reviewAll reviews what was loaded by the defaults.
func reviewAll(t testing.TB, in manifest.Inputs) []Reviewed {
	t.Helper()
	all, err := new(Bench).Review(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all.Objects
}

// BenchmarkMistakes judges a VM of 1 MB with 1,000 mistakes, and finds the line of each.
func BenchmarkMistakes(b *testing.B) {
	var text strings.Builder
	text.WriteString("          disks:\n")
	for i := range 500 {
		fmt.Fprintf(&text, "          - {name: %s, wrong%d: 1}\n", strings.Repeat("d", 2000), i)
	}
	text.WriteString("          inputs:\n")
	for i := range 500 {
		fmt.Fprintf(&text, "          - {name: i%d, wrong%d: 1}\n", i, i)
	}
	benchmarkVerdict(b, vmWithDevices(text.String()), 1000)
}

// BenchmarkTooManyElements refuses a VM for a list of 100,000 elements.
func BenchmarkTooManyElements(b *testing.B) {
	benchmarkVerdict(b, vmWithDevices("          disks:\n"+strings.Repeat("          - {name: disk, disk: {bus: virtio}}\n", 100_000)), 1)
}

func benchmarkVerdict(b *testing.B, text string, causes int) {
	b.ReportAllocs()
	for b.Loop() {
		found := reviewAll(b, loadText(b, "vm.yaml", text))[0].Judgement().Causes
		if len(found) != causes || found[0].Line == 0 {
			b.Fatalf("%d causes, want %d: %v", len(found), causes, found[:1])
		}
	}
}

// TestLinesOfManyCauses: each cause has its line, and the document is parsed once for all of them, whether one object has them or each of a list.
func TestLinesOfManyCauses(t *testing.T) {
	t.Parallel()
	const many = 300
	var fields, list, separate, stream strings.Builder
	list.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for i := range many {
		fmt.Fprintf(&fields, "          wrong%d: 1\n", i)
		fmt.Fprintf(&list, "- {apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: n%d},\n   wrong: 1, spec: {}}\n", i)
		fmt.Fprintf(&separate, "---\n{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: n%d},\n   wrong: 1, spec: {}}\n", i)
		fmt.Fprintf(&stream, `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "n%d"}, "spec": {},`+"\n"+`"wrong": 1} `, i)
	}
	for _, c := range []struct {
		why, name, text string
		parses          int
		first, every    int
	}{
		{"one object", "a.yaml", vmWithDevices(fields.String()), 1, 10, 1},
		{"a list", "a.yaml", list.String(), many, 5, 2},
		{"documents", "a.yaml", separate.String(), many, 3, 3},
		{"JSON objects, of which each begins on a line of another", "a.json", stream.String(), many, 2, 1},
	} {
		in := loadText(t, c.name, c.text)
		var lines []int
		for _, one := range reviewAll(t, in) {
			for _, cause := range one.Judgement().Causes {
				if strings.Contains(cause.Field, "wrong") {
					lines = append(lines, cause.Line)
				}
			}
		}
		if len(lines) != many {
			t.Fatalf("%s: %d causes, want %d", c.why, len(lines), many)
		}
		slices.Sort(lines) // causes come in the order of their paths as texts
		for i, line := range lines {
			if want := c.first + i*c.every; line != want {
				t.Errorf("%s: cause %d is at line %d, want %d", c.why, i, line, want)
				break
			}
		}
		if parses := in.Named[0].Places.Parses; parses != c.parses {
			t.Errorf("%s: %d documents were parsed for lines, want %d", c.why, parses, c.parses)
		}
	}
}

// TestTooManyElementsComeFirst: a list beyond the limit of admission is the one cause, although each of its elements is wrong, and no warning is about them.
func TestTooManyElementsComeFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ why, name, text, field string }{
		{"YAML", "a.yaml", vmWithDevices("          disks:\n" + strings.Repeat("          - {name: null}\n", 600)), "spec.template.spec.domain.devices.disks"},
		{"JSON", "a.json", `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "a"}, "spec": {"template": {"spec": {"volumes": [` +
			strings.Repeat(`{"name": null},`, 600) + `{}]}}}}`, "spec.template.spec.volumes"},
		{"a profile", "a.yaml", "apiVersion: kilnvm.io/v1alpha1\nkind: GuestProfile\nmetadata: {name: a}\nspec:\n  unknown:\n" +
			strings.Repeat("  - {}\n", 600), "spec.unknown"},
	} {
		found := reviewAll(t, loadText(t, c.name, c.text))[0].Judgement()
		if len(found.Causes) != 1 || found.Causes[0].Field != c.field || !strings.Contains(found.Causes[0].Message, "at most 512 are allowed") {
			t.Errorf("%s: %d causes, want one at %s: %.300v", c.why, len(found.Causes), c.field, found.Causes)
		}
		if len(found.Warnings) > 0 {
			t.Errorf("%s: warnings %.300v, want none", c.why, found.Warnings)
		}
	}
	other := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"
	for i := range 600 {
		other += fmt.Sprintf("  k%d: v\n", i)
	}
	if found := reviewAll(t, loadText(t, "a.yaml", other)); len(found) > 0 {
		t.Errorf("a ConfigMap is judged: %+v", found[0].Verdict)
	}
}

// TestTooLargeObjects: an object that no API server takes is not decoded. A list of objects may be larger.
func TestTooLargeObjects(t *testing.T) {
	t.Parallel()
	const vm = `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "a", "annotations": {"a": "%s"}}, "spec": {}}`
	half, whole := strings.Repeat("x", manifest.MaxObjectBytes/2), strings.Repeat("x", manifest.MaxObjectBytes)
	inLines := strings.NewReplacer(`{"apiVersion": "`, "apiVersion: ", `", "kind": "`, "\nkind: ", `", "metadata": `, "\nmetadata: ", `}}, "spec"`, "}}\nspec").
		Replace(strings.TrimSuffix(vm, "}"))
	for _, c := range []struct {
		why, text string
		faults    []bool
	}{
		{"YAML", fmt.Sprintf(inLines, whole), []bool{true}},
		{"smaller YAML", fmt.Sprintf(inLines, half), []bool{false}},
		{"JSON", fmt.Sprintf(vm, whole), []bool{true}},
		{"smaller JSON", fmt.Sprintf(vm, half), []bool{false}},
		{"a list in YAML", "apiVersion: v1\nkind: List\nitems:\n" + strings.Repeat("- "+fmt.Sprintf(vm, half)+"\n", 3), []bool{false, false, false}},
		{"a list in JSON", `{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join([]string{fmt.Sprintf(vm, half), fmt.Sprintf(vm, whole),
			fmt.Sprintf(vm, half)}, ", ") + "]}", []bool{false, true, false}},
		{"YAML that is not parsed", fmt.Sprintf(inLines, whole) + "\n\t{", []bool{true}},
	} {
		named := loadText(t, "a.yaml", c.text).Named
		if len(named) != len(c.faults) {
			t.Errorf("%s: %d objects, want %d", c.why, len(named), len(c.faults))
			continue
		}
		for i, want := range c.faults {
			got := named[i].Fault
			if (got != nil) != want || want && !strings.Contains(got.Error(), "a.yaml:1: the object has more than 3 MiB, which no API server accepts") {
				t.Errorf("%s: object %d: %v, want a fault: %t", c.why, i, got, want)
			}
		}
	}
}

// TestManyMistakesAreBounded: an object within the limits may have thousands of mistakes, of which as many are named as the webhook names.
func TestManyMistakesAreBounded(t *testing.T) {
	t.Parallel()
	text := "          disks:\n" + strings.Repeat("          - {}\n", 512) + "          inputs:\n" + strings.Repeat("          - {}\n", 512)
	if found := reviewAll(t, loadText(t, "a.yaml", vmWithDevices(text)))[0].Judgement().Causes; len(found) != validate.MostErrors {
		t.Errorf("%d causes, want %d", len(found), validate.MostErrors)
	}
}

// TestJSONIsReadAsJSON: YAML allows no key of more than 1,024 characters in a flow, and has no word for what is wrong in a JSON text.
func TestJSONIsReadAsJSON(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 1025)
	object := `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "a"}, "spec": {"runStrategy": "Halted",` + "\n" +
		`"template": {"spec": {"domain": {"devices": {}},` + "\n" + `"` + key + `": 1}}}}`
	for name, text := range map[string]string{
		"one":    object,
		"a list": `{"apiVersion": "v1", "kind": "List", "items": [` + object + `]}`,
	} {
		in := loadText(t, "a.json", text)
		if in.Named[0].Fault != nil {
			t.Errorf("%s: %v", name, in.Named[0].Fault)
			continue
		}
		causes := reviewAll(t, in)[0].Judgement().Causes
		if len(causes) != 1 || causes[0].Field != "spec.template.spec."+key || causes[0].Line != 3 {
			t.Errorf("%s: causes %.300v, want the unknown field at line 3", name, causes)
		}
	}
	twice := strings.Replace(object, `"spec": {`, `"spec": {},`+"\n"+`"spec": {"wrong": 1, `, 1)
	if causes := reviewAll(t, loadText(t, "a.json", twice))[0].Judgement().Causes; len(causes) != 2 || causes[1].Field != "spec.wrong" || causes[1].Line != 2 {
		t.Errorf("of a key that stands twice the last one counts: causes %.300v", causes)
	}
	for text, want := range map[string]string{
		`{"kind": "A",` + "\n" + `"` + key + `": 1,` + "\n}": "a.json:3: this is not JSON: invalid character '}' looking for beginning of object key string",
		`{"kind": "A"` + "\n" + `"` + key + `": 1}`:          "a.json:2: this is not JSON: invalid character '\"' after object key:value pair",
		`{"kind": "A", "` + key + `": `:                      "a.json:1: this is not JSON: unexpected end of JSON input",
		`[{"` + key + `": 1}]`:                               "this is a list or a single value, not an object",
		`{"kind": "A", "value": 1e999}`:                      "1e999",
	} {
		if found := loadText(t, "a.json", text).Named[0].Fault; found == nil || !strings.Contains(found.Error(), want) {
			t.Errorf("%.40s: fault %v, want '%s'", text, found, want)
		}
	}
}
