package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// examples is the directory of the published manifests, which are not part of this repository.
func examples(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KILN_SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	dir, err := filepath.Abs(filepath.Join(dir, "examples")) // kubectl runs in another directory
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no published examples at '%s'; set KILN_SHARED to the directory that holds them", dir)
	}
	return dir
}

// objects reads the objects of a manifest, none when it has a kind that this cluster does not serve.
func (s space) objects(file string) []unstructured.Unstructured {
	s.Helper()
	out := s.kubectl("", "create", "--dry-run=client", "-o", "json", "-f", file)
	if out.err != nil {
		s.Logf("%s: not read: %s", filepath.Base(file), out.stderr)
	}
	// One value after the other, when there are several.
	var all []unstructured.Unstructured
	for decoder := json.NewDecoder(strings.NewReader(out.stdout)); decoder.More(); {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object.Object); err != nil {
			s.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

// createSize creates an instancetype or preference, so that the VMs of other files find it.
func (s space) createSize(object unstructured.Unstructured) {
	s.Helper()
	if object.GroupVersionKind().Group != "instancetype.kubevirt.io" {
		return
	}
	raw, err := object.MarshalJSON()
	if err != nil {
		s.Fatal(err)
	}
	s.must(s.kubectl(string(raw), "apply", "--server-side", "-f", "-"))
	s.Cleanup(func() { s.kubectlAfter("delete", object.GetKind(), object.GetName()) })
}

// Every manifest that people know, through the running webhook: what is admitted stays as it is when it is admitted again.
func TestPatchesOfThePublishedExamples(t *testing.T) {
	dir := examples(t)
	s := newSpace(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests in '%s': %v", dir, err)
	}
	patched, unchanged, refused := 0, 0, 0
	all := map[string][]unstructured.Unstructured{}
	for _, file := range files {
		all[file] = s.objects(file)
		for _, object := range all[file] {
			s.createSize(object)
		}
	}
	for _, file := range files {
		for _, object := range all[file] {
			path := map[string]string{"VirtualMachine": mutateVM, "VirtualMachineInstance": mutateVMI}[object.GetKind()]
			if path == "" {
				continue
			}
			raw, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			response := s.post(path, raw)
			switch {
			case !response.Allowed:
				t.Logf("%s: refused: %s", filepath.Base(file), response.Result.Message)
				refused++
				continue
			case response.Patch == nil:
				unchanged++
				continue
			}
			patched++
			if again := s.review(path, s.applied(raw, response.Patch)); again.Patch != nil {
				t.Errorf("%s: the second admission patches %s", filepath.Base(file), again.Patch)
			}
		}
	}
	t.Logf("%d files: %d objects patched, %d left as they are, %d refused", len(files), patched, unchanged, refused)
	if patched == 0 {
		t.Error("nothing was patched, so nothing was shown")
	}
}
