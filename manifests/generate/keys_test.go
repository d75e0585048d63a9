package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReference: the pages about kinds and keys are what the types and constants say.
func TestReference(t *testing.T) {
	const pages = "../../docs/reference"
	dir := t.TempDir()
	if err := writeReference("../crds", "../../api/v1alpha1", dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kinds.md", "keys.md"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(pages, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is out of date; run 'make manifests': -generated +checked in\n%s", name, diff)
		}
	}
}

// TestConstants: every constant has a comment, and each form of its value is read.
func TestConstants(t *testing.T) {
	const source = "package p\n\n// Prefix of all.\nconst Prefix = \"a/\"\n\n// AnnotationX is on VMs.\nconst AnnotationX = Prefix + \"x\"\n\n" +
		"const (\n\t// ReasonX means a|b, see AnnotationX.\n\tReasonX = \"X\"\n\tinternal = \"no\"\n)\n"
	for _, c := range []struct{ why, source, want string }{
		{"constants", source, "Prefix=a/: of all. AnnotationX=a/x: is on VMs. ReasonX=X: means a\\|b, see `a/x`."},
		{"one without a comment", source + "\nconst LabelX = Prefix + \"l\"\n", ""},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(c.source), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := readConstants(dir)
		var got []string
		for _, key := range keys {
			got = append(got, key.name+"="+key.value+": "+key.doc)
		}
		if (err != nil) != (c.want == "") || err == nil && strings.Join(got, " ") != c.want {
			t.Errorf("%s: '%s', %v, want '%s'", c.why, strings.Join(got, " "), err, c.want)
		}
	}
}
