package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/utils"
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

// TestPageOfTheChart: README.md and the icon are what values.yaml and icon.svg say, every value has a row, and a map of several lines has rows for its values.
func TestPageOfTheChart(t *testing.T) {
	dir := t.TempDir()
	readme, chart := filepath.Join(dir, "README.md"), filepath.Join(dir, "Chart.yaml")
	if err := os.WriteFile(chart, []byte(strings.ReplaceAll(read(t, "../chart/kiln/Chart.yaml"), "icon: data", "icon: other")), 0o600); err != nil {
		t.Fatal(err)
	}
	const reference = "../../docs/reference/helm-values.md"
	page := filepath.Join(dir, "helm-values.md")
	if err := writeValuesPage("../chart/kiln/values.yaml", page); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read(t, page), read(t, reference)); diff != "" {
		t.Errorf("%s is out of date; run 'make manifests': -generated +checked in\n%s", reference, diff)
	}
	if err := errors.Join(writeChartPage("../chart/kiln/values.yaml", readme), writeIcon("../chart/icon.svg", chart)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{readme, chart} {
		if diff := cmp.Diff(read(t, file), read(t, filepath.Join("../chart/kiln", filepath.Base(file)))); diff != "" {
			t.Errorf("%s is out of date; run 'make manifests': -generated +checked in\n%s", filepath.Base(file), diff)
		}
	}
	if svg := read(t, "../chart/icon.svg"); xml.Unmarshal([]byte(svg), new(struct{ XMLName xml.Name })) != nil || len(svg) > 1<<10 {
		t.Errorf("icon.svg is no XML, or too large for a line of Chart.yaml: %d bytes", len(svg))
	}
	values := filepath.Join(dir, "values.yaml")
	const text = "# Of all.\n\n# One: a | b.\na: 1\nb:\n  # Two\n  # lines.\n  c: {d: [x]}\n  e:\n  - {f: 1}\n"
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeChartPage(values, readme); err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(read(t, readme), "|---|---|---|\n")
	if want := "| `a` | `1` | One: a \\| b. |\n| `b.c` | `{d: [x]}` | Two lines. |\n| `b.e` | `[{f: 1}]` |  |\n"; rows != want {
		t.Errorf("rows\n%s\nwant\n%s", rows, want)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
		{"a key", "spec.replicas", ""},
		{"a new key", "spec.+", ""},
		{"an item of a list by its name", "spec.containers.[name=a].image", ""},
		{"a new item of a list", "spec.containers.[name=a].args.-", ""},
		{"a key of each item", "spec.containers.*.image", ""},
		{"a key with dots and a slash", "labels.[a.b/c]", ""},
		{"no such key", "spec.paused", "no 'paused'"},
		{"no such list", "spec.containers.[name=a].env.-", "no 'env'"},
		{"no such item", "spec.containers.[name=b].image", "no item [name=b]"},
		{"an item by its position", "spec.containers.0.image", "'0' must be '*' or '[name=NAME]'"},
		{"a whole item", "spec.containers.[name=a]", "must be followed by a field"},
		{"a key of a number", "spec.replicas.x", "not within"},
	} {
		object := map[string]any{
			"spec":   map[string]any{"replicas": 2, "containers": []any{map[string]any{"name": "a", "image": "kiln", "args": []any{"-v"}}}},
			"labels": map[string]any{"a.b/c": "d"},
		}
		err := putToken(object, utils.SmarterPathSplitter(c.path, "."), "kiln-place-0-")
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
		if got := fillLine(c.line, []string{c.template}); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.why, got, c.want)
		}
	}
	text, err := chartText(chartObject{object: map[string]any{"kind": "A", "metadata": map[string]any{}, "text": "{{ $labels.x }}"}})
	if err != nil || !strings.Contains(text, `'{{ "{{" }} $labels.x }}'`) {
		t.Errorf("%v: braces of the manifests must not be expressions:\n%s", err, text)
	}
}
