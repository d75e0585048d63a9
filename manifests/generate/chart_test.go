package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChartIsUpToDate writes the templates elsewhere, and finds no other and no further file in the chart.
func TestChartIsUpToDate(t *testing.T) {
	const checkedIn = "../chart/kiln/templates"
	dir := t.TempDir()
	if os.Getenv("GOLDEN") == "rewrite" {
		dir = checkedIn
	}
	if err := writeChart("..", dir); err != nil {
		t.Fatal(err)
	}
	want, got := tree(t, filepath.Join(dir, "generated")), tree(t, filepath.Join(checkedIn, "generated"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the chart is out of date; run 'make manifests': -generated +checked in\n%.4000s", diff)
	}
}

// tree is the text of each file below a folder, by its path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		texts[strings.TrimPrefix(path, dir)] = string(text)
		return err
	})
	if err != nil || len(texts) < 20 {
		t.Fatalf("%d templates in '%s': %v", len(texts), dir, err)
	}
	return texts
}

// TestPut: a place that the manifests no longer have is an error, so that no value of the chart is silently without effect.
func TestPut(t *testing.T) {
	for _, c := range []struct{ why, path, want string }{
		{"a key", "spec/replicas", ""},
		{"a new key", "spec/+", ""},
		{"an element of a list", "spec/containers/0/image", ""},
		{"a new item of a list", "spec/containers/0/args/-", ""},
		{"a key of each item", "spec/containers/*/image", ""},
		{"a key with a slash", "labels/a.b~1c", ""},
		{"no such key", "spec/paused", "no 'paused'"},
		{"no such list", "spec/containers/0/env/-", "no 'env'"},
		{"a key of a number", "spec/replicas/x", "not within"},
	} {
		object := map[string]any{
			"spec":   map[string]any{"replicas": 2, "containers": []any{map[string]any{"image": "kiln", "args": []any{"-v"}}}},
			"labels": map[string]any{"a.b/c": "d"},
		}
		err := put(object, strings.Split(c.path, "/"), "kiln-place-0-")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want '%s'", c.why, err, c.want)
		}
		if strings.Contains(fmt.Sprint(object), "kiln-place-0-") != (c.want == "") {
			t.Errorf("%s: %v", c.why, object)
		}
	}
}

// TestFilled: what is written stands where the object was, and its own braces mean themselves.
func TestFilled(t *testing.T) {
	for _, c := range []struct{ why, line, template, want string }{
		{"a value", "  replicas: kiln-place-0-", "{{ .Values.replicas }}", "  replicas: {{ .Values.replicas }}"},
		{"a block that is indented below its key", "  resources: kiln-place-0-", "{{- toYaml .Values.r | nindent @ }}",
			"  resources: {{- toYaml .Values.r | nindent 4 }}"},
		{"an item of a list", "  - kiln-place-0-", "{{- if .a }}\n- x\n{{- end }}", "  {{- if .a }}\n  - x\n  {{- end }}"},
		{"a new key", `  kiln-place-0-: ""`, "{{- with .a }}\nb: {{ . }}\n{{- end }}", "  {{- with .a }}\n  b: {{ . }}\n  {{- end }}"},
	} {
		if got := filled(c.line, []string{c.template}); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.why, got, c.want)
		}
	}
	text, err := chartText(chartObject{object: map[string]any{"kind": "A", "text": "{{ $labels.x }}"}})
	if err != nil || !strings.Contains(text, `'{{ "{{" }} $labels.x }}'`) {
		t.Errorf("%v: braces of the manifests must not be expressions:\n%s", err, text)
	}
}
