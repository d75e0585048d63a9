package corpus

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/golden"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// caseFiles of a case; every other file in it is golden.
var caseFiles = []string{"vm.yaml", "vmi.yaml", "cluster.yaml", "host.yaml", "object.yaml", "stored.yaml", "request.yaml"}

func TestCorpus(t *testing.T) {
	cases, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			files, domain := outputs(t, c)
			for name, text := range files {
				golden.Compare(t, filepath.Join(c.Dir, name), text)
			}
			if domain != "" {
				golden.CompareDomain(t, filepath.Join(c.Dir, "domain.diff"), domain)
			}
			golden.Orphans(t, c.Dir, files, caseFiles...)
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
			golden.Compare(t, filepath.Join(r.Dir, name), text)
			golden.Orphans(t, r.Dir, map[string]string{name: text}, caseFiles...)
		})
	}
}

func warned(warnings []string) (text string) {
	for _, warning := range warnings {
		text += "# warning: " + warning + "\n"
	}
	return text
}

// outputs is everything that a case leads to, by file name, and the complete domain, of which the files have the difference.
func outputs(t *testing.T, c Case) (files map[string]string, domain string) {
	t.Helper()
	admitted, err := c.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	explicit, verdict, warnings := admitted.Explicit, admitted.Verdict, warned(admitted.Verdict.Warnings)
	if !verdict.Allowed() {
		return map[string]string{"denied.txt": warnings + causes(verdict.Errors)}, ""
	}
	files = map[string]string{"admitted.yaml": warnings + manifest(t, explicit)}
	if !admitted.Known {
		return files, ""
	}
	rendered, errs, err := c.Render(explicit)
	if err != nil {
		t.Fatal(err)
	}
	if len(errs) > 0 {
		files["denied.txt"] = causes(errs)
		return files, ""
	}
	frontend, domain := printed(t, rendered.Frontend), printed(t, rendered.Documents.Domain)
	files[golden.Frontend], files["domain.diff"] = frontend, golden.Difference(frontend, domain)
	files["pod.yaml"] = podFile(t, explicit)
	return files, domain
}

// podFile is the pod of a VMI: warnings and refusals as comments, and what it has beyond testdata/pod.yaml.
func podFile(t *testing.T, explicit *v1.VirtualMachineInstance) string {
	t.Helper()
	result, errs := Pod(explicit)
	text := warned(result.Warnings)
	for line := range strings.Lines(causes(errs)) {
		text += "# refused: " + line
	}
	if len(errs) > 0 {
		return text
	}
	difference, err := podText(result)
	if err != nil {
		t.Fatal(err)
	}
	return text + difference
}

// TestCommonPod: what the pods of the cases have in common stands once.
func TestCommonPod(t *testing.T) {
	common, err := commonPod("guest")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(common)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "pod.yaml"), string(text))
}

func printed(t *testing.T, document interface{ Marshal() (string, error) }) string {
	t.Helper()
	text, err := document.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text + "\n"
}

// causes are one a line.
func causes(errs field.ErrorList) string {
	var text strings.Builder
	for _, err := range errs {
		text.WriteString(err.Field + ": " + err.ErrorBody() + "\n")
	}
	return text.String()
}

// manifest is a VMI as kubectl would print it, without what stage 1 never writes.
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
