package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUpToDate generates again elsewhere: what is checked in must be what the sources say.
func TestUpToDate(t *testing.T) {
	crds, overlay, component, copies := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.CopyFS(filepath.Join(crds, "patches"), os.DirFS("../crds/patches")); err != nil {
		t.Fatal(err)
	}
	if err := writeDefinitions(crds); err != nil {
		t.Fatal(err)
	}
	for directory, write := range map[string]func(string) error{
		overlay: writeCertManager, component: writeAPIServerCertManager, crds: writeOwnDefinitions, copies: writeCopies,
	} {
		if err := write(directory); err != nil {
			t.Fatal(err)
		}
	}
	for directory, generated := range map[string]string{"../crds": crds, "../crds/hostprofiles": filepath.Join(crds, "hostprofiles"),
		"../crds/guesthardwares":   filepath.Join(crds, "guesthardwares"),
		"../overlays/cert-manager": overlay, "../apiserver/cert-manager": component, "../../api/v1alpha1": copies} {
		files, err := filepath.Glob(filepath.Join(generated, "*.*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("nothing was generated for '%s': %v", directory, err)
		}
		for _, file := range files {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(directory, filepath.Base(file)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s is out of date; run 'make manifests': -generated +checked in\n%s", filepath.Base(file), diff)
			}
		}
	}
}

func TestApply(t *testing.T) {
	const document = "spec: {versions: [{name: v1, served: true}]}\n"
	for _, c := range []struct{ why, patch, want string }{
		{"a second version starts as a copy of the first", "- {op: copy, from: /spec/versions/0, path: /spec/versions/1}\n" +
			"- {op: replace, path: /spec/versions/1/name, value: v0}\n",
			"spec:\n  versions:\n  - name: v1\n    served: true\n  - name: v0\n    served: true\n"},
		{"a path that the API no longer has is an error, not a no-op", "- {op: replace, path: /spec/gone, value: 1}\n", ""},
		{"a patch is a list", "op: add\n", ""},
	} {
		got, err := applyPatch([]byte(c.patch), []byte(document))
		if string(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: '%s', %v, want '%s'", c.why, got, err, c.want)
		}
	}
}
