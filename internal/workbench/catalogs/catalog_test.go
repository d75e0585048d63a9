package catalogs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
)

const plainInstancetype = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata:
  name: small
  labels:
    instancetype.kubevirt.io/cpu: "2"
    instancetype.kubevirt.io/memory: 4Gi
spec:
  cpu:
    guest: 2
  memory:
    guest: 4Gi
`

// findings reads a catalog and lints it. Each finding is 'file:line rule', without the folder; notes on descriptions are left out.
func findings(t *testing.T, dir string) (all []string, texts string) {
	t.Helper()
	files, err := manifest.ReadFolder(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(dir, "shop", files)
	if err != nil {
		t.Fatal(err)
	}
	found, warnings, err := Lint(t.Context(), new(workbench.Bench), c, time.Now())
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	for _, f := range found {
		if f.Rule == "label/description" {
			continue
		}
		texts += f.Message + "\n"
		all = append(all, fmt.Sprintf("%s:%d %s", strings.TrimPrefix(f.File, dir+"/"), f.Line, f.Rule))
		if f.Remedy == "" || f.Message == "" || f.Severity == "" {
			t.Errorf("no message, severity or remedy: %+v", f)
		}
	}
	return all, texts
}

// put writes a file of a folder.
func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestReadingACatalog: what is wrong with a file or for an API server is a finding at its line. The good neighbour of each has none.
func TestReadingACatalog(t *testing.T) {
	replaced := func(old, new string) string {
		if !strings.Contains(plainInstancetype, old) {
			t.Fatalf("'%s' is not in the manifest", old)
		}
		return strings.Replace(plainInstancetype, old, new, 1)
	}
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(plainInstancetype), "\n", "\n  ")
	for _, test := range []struct{ why, content, want string }{
		{"nothing is wrong", plainInstancetype, ""},
		{"a list", list + "\n", ""},
		{"JSON", `{"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterPreference", "metadata": {"name": "linux"}, "spec": {}}`, ""},
		{"comments alone", "# nothing yet\n", ""},
		{"no YAML", "a: [b\n", "c.yaml:0 file/unreadable"},
		{"no object", "- a\n- b\n", "c.yaml:0 file/unreadable"},
		{"an object of another kind", "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "c.yaml:2 file/foreign"},
		{"an unknown field", replaced("    guest: 4Gi", "    guest: 4Gi\n    gest: 1Gi"), "c.yaml:13 api/unknown-field"},
		{"an unknown field of a list", strings.Replace(list, "    guest: 4Gi", "    guest: 4Gi\n      gest: 1Gi", 1), "c.yaml:16 api/unknown-field"},
		{"a wrong type", replaced("guest: 2", "guest: two"), "c.yaml:10 api/schema"},
		{"NaN", replaced("guest: 4Gi", "guest: NaN"), "c.yaml:12 api/schema"},
		{"a number without end", replaced("guest: 4Gi", "guest: .inf"), "c.yaml:0 file/unreadable"},
		{"no memory", strings.NewReplacer("guest: 4Gi", "guest: 0", "memory: 4Gi", "memory: \"0\"").Replace(plainInstancetype), "c.yaml:12 catalog/legal"},
		{"a missing field", replaced("  cpu:\n    guest: 2\n", ""), "c.yaml:8 api/schema"},
		{"a name of capitals", replaced("name: small", "name: Small"), "c.yaml:4 api/name"},
		{"no name", replaced("  name: small\n", ""), "c.yaml:3 api/name"},
		{"a generated name", replaced("name: small", "generateName: small-"), "c.yaml:3 api/name"},
		{"a label with a space", replaced("memory: 4Gi", "memory: '4 Gi'"), "c.yaml:5 api/metadata"},
		{"an old version", replaced("v1beta1", "v1alpha1"), "c.yaml:2 api/schema"},
		{"a key twice", replaced("    guest: 2\n", "    guest: 2\n    guest: 4\n"), "c.yaml:11 file/duplicate-key"},
		{"a key twice in the second document", "---\n# one\n---\n" + replaced("    guest: 2\n", "    guest: 2\n    guest: 4\n"), "c.yaml:14 file/duplicate-key"},
		{"a key twice in JSON, beside one that YAML refuses", `{"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineInstancetype",` +
			"\n" + `"metadata": {"name": "a"}, "spec": {"nodeSelector": {"` + strings.Repeat("k", 1025) + `": "v"}, "memory": {"guest": "4Gi"}, "cpu": {"guest": 2,` +
			"\n" + `"guest": 4}}}`, "c.yaml:3 file/duplicate-key"},
		{"a label that lies", replaced(`"2"`, `"4"`), "c.yaml:6 label/value"},
		{"too many elements", replaced("  memory:", "  gpus: ["+strings.Repeat("{name: a, deviceName: b},", 513)+"]\n  memory:"), "c.yaml:11 api/schema"},
		{"too deep", replaced("  memory:", "  gpus: "+strings.Repeat("[", 70)+strings.Repeat("]", 70)+"\n  memory:"), "c.yaml:11 api/schema"},
	} {
		dir := t.TempDir()
		put(t, dir, "c.yaml", test.content)
		put(t, dir, "README.md", "no manifest")
		put(t, dir, "kustomization.yaml", "resources: [c.yaml]\n")
		all, texts := findings(t, dir)
		if got := strings.Join(unique(all), ", "); got != test.want {
			t.Errorf("%s: findings at '%s', want '%s'\n%s", test.why, got, test.want, texts)
		}
	}
}

func unique(all []string) (once []string) {
	seen := map[string]bool{}
	for _, text := range all {
		if !seen[text] {
			once = append(once, text)
		}
		seen[text] = true
	}
	return once
}

// TestHostileFolder: a catalog of a stranger reads nothing outside of its folder, does not wait, and ends.
func TestHostileFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, "secret.yaml", "password: hunter2\n")
	put(t, dir, "real/c.yaml", plainInstancetype)
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(outside, "secret.yaml"), "absolute.yaml")
	link("../"+filepath.Base(outside)+"/secret.yaml", "relative.yaml")
	link(outside, "folder")
	link(outside, "folder.yaml")
	link("/dev/zero", "zero.yaml")
	link("round.yaml", "round.yaml")
	link("real/c.yaml", "within.yaml")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "bomb.yaml", "a: &a [x,x,x,x,x,x,x,x,x]\n"+bomb())
	put(t, dir, "round-bomb.yaml", "a: &a\n  b: *a\n")
	put(t, dir, "deep.yaml", strings.Repeat("[", 100000))
	put(t, dir, "escape.yaml", "kind: \"\\e[31mred\"\n")
	got, texts := findings(t, dir)
	want := []string{
		"absolute.yaml:0 file/unreadable", "bomb.yaml:0 file/unreadable", "deep.yaml:0 file/unreadable", "escape.yaml:0 file/unreadable",
		"folder.yaml:0 file/unreadable", "pipe.yaml:0 file/unreadable", "relative.yaml:0 file/unreadable", "round-bomb.yaml:0 file/unreadable",
		"round.yaml:0 file/unreadable", "within.yaml:4 catalog/twice", "zero.yaml:0 file/unreadable",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s\n%s", diff, texts)
	}
	if strings.Contains(texts, "hunter2") || strings.Contains(texts, "password") {
		t.Errorf("a finding repeats a file outside of the folder:\n%s", texts)
	}
}

// bomb is a document of nine levels that stands for a billion elements.
func bomb() string {
	var text strings.Builder
	for level := 'b'; level < 'k'; level++ {
		fmt.Fprintf(&text, "%c: &%c [%s]\n", level, level, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", level-1), 9), ","))
	}
	return text.String()
}

// TestIndexIsBounded: an entry of two bytes takes a hundred times as much memory.
func TestIndexIsBounded(t *testing.T) {
	index := `{"instancetypes":[` + strings.Repeat("{},", mostIndexed) + `{}]}`
	if _, err := ReadIndex([]byte(index)); err == nil || !strings.Contains(err.Error(), "at most 50000") {
		t.Errorf("an index of many objects: %v", err)
	}
}

// TestManyDocuments: the lines of thousands of documents, and of the items of one list, are found in time that grows with their number.
func TestManyDocuments(t *testing.T) {
	const many = 2000
	dir := t.TempDir()
	wrong := strings.Replace(plainInstancetype, "guest: 2", "guest: two", 1)
	item := "- " + strings.ReplaceAll(strings.TrimSpace(wrong), "\n", "\n  ") + "\n"
	put(t, dir, "documents.yaml", strings.Repeat("---\n"+wrong, many))
	put(t, dir, "list.yaml", "apiVersion: v1\nkind: List\nitems:\n"+strings.Repeat(item, many))
	all, _ := findings(t, dir)
	if len(all) != 2*many {
		t.Fatalf("%d findings", len(all))
	}
	for at, want := range map[int]string{0: "documents.yaml:11", many - 1: "documents.yaml:25998", many: "list.yaml:13", 2*many - 1: "list.yaml:24001"} {
		if !strings.HasPrefix(all[at], want+" ") {
			t.Errorf("finding %d is at %s, want %s", at, all[at], want)
		}
	}
}
