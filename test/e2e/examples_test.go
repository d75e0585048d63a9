package e2e

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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

// kindOf is the kind of an object as kubectl takes it.
func kindOf(object unstructured.Unstructured) string {
	kind := object.GroupVersionKind()
	return strings.Join([]string{strings.ToLower(kind.Kind), kind.Version, kind.Group}, ".")
}

// createSize creates an instancetype or preference, so that the VMs of other files find it.
func (s space) createSize(object unstructured.Unstructured) {
	s.Helper()
	if object.GroupVersionKind().Group != "instancetype.kubevirt.io" {
		return
	}
	in := s.in(kindOf(object))
	if err := s.on.Apply(s.Context(), in, &object); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = s.on.Delete(context.Background(), in, object.GetName()) })
}

// Every example, and every manifest that people know, through the running webhook: what is admitted stays as it is when it is
// admitted again.
func TestPatchesOfExamples(t *testing.T) {
	for _, set := range samples.Sets(t) {
		t.Run(set.Name, func(t *testing.T) { patchesOf(t, set.Examples(t)) })
	}
}

func patchesOf(t *testing.T, files []string) {
	s := newSpace(t)
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
