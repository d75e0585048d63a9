package corpus

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// inputs of a case; every other file in it is golden.
var inputs = []string{"vm.yaml", "vmi.yaml", "cluster.yaml", "host.yaml", "object.yaml", "stored.yaml", "request.yaml"}

// rewrite tells whether the goldens are to be written ('make golden'), not compared.
var rewrite = os.Getenv("GOLDEN") == "rewrite"

func TestCorpus(t *testing.T) {
	cases, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			golden := outputs(t, c)
			for name, text := range golden {
				compare(t, filepath.Join(c.Dir, name), text)
			}
			orphans(t, c.Dir, golden)
		})
	}
}

func TestRequests(t *testing.T) {
	requests, err := LoadRequests(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			verdict, err := r.Judge(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			name, text := "allowed.txt", causes(verdict.Errors)
			if !verdict.Allowed() {
				name = "denied.txt"
			}
			text = warned(verdict.Warnings) + text
			compare(t, filepath.Join(r.Dir, name), text)
			orphans(t, r.Dir, map[string]string{name: text})
		})
	}
}

func warned(warnings []string) (text string) {
	for _, warning := range warnings {
		text += "# warning: " + warning + "\n"
	}
	return text
}

// outputs is everything that a case leads to, by file name.
func outputs(t *testing.T, c Case) map[string]string {
	t.Helper()
	admitted, err := c.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	explicit, verdict, warnings := admitted.Explicit, admitted.Verdict, warned(admitted.Verdict.Warnings)
	if !verdict.Allowed() {
		return map[string]string{"denied.txt": warnings + causes(verdict.Errors)}
	}
	golden := map[string]string{"admitted.yaml": warnings + manifest(t, explicit)}
	if !admitted.Known {
		return golden
	}
	rendered, errs, err := c.Render(explicit)
	if err != nil {
		t.Fatal(err)
	}
	if len(errs) > 0 {
		golden["denied.txt"] = causes(errs)
		return golden
	}
	for name, document := range map[string]interface{ Marshal() (string, error) }{
		"frontend.xml": rendered.Frontend, "domain.xml": rendered.Documents.Domain,
	} {
		text, err := document.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		golden[name] = text + "\n"
	}
	return golden
}

// causes are one a line.
func causes(errs field.ErrorList) string {
	var text strings.Builder
	for _, err := range errs {
		text.WriteString(err.Field + ": " + err.ErrorBody() + "\n")
	}
	return text.String()
}

// manifest is a guest as kubectl would print it, without what stage 1 never writes.
func manifest(t *testing.T, vmi *v1.VirtualMachineInstance) string {
	t.Helper()
	raw, err := json.Marshal(vmi)
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	delete(object, "status")
	if meta, ok := object["metadata"].(map[string]any); ok {
		delete(meta, "creationTimestamp")
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	if rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s differs; 'make golden' writes it again, read every difference (-golden +now):\n%s", path, cmp.Diff(string(want), got))
}

// orphans are goldens that nothing leads to any more, and files that nobody reads.
func orphans(t *testing.T, dir string, golden map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if _, wanted := golden[entry.Name()]; wanted || slices.Contains(inputs, entry.Name()) {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if rewrite {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Errorf("%s: the case does not lead to this file; 'make golden' removes it", path)
	}
}
