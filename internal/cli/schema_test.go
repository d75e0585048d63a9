package cli

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

// editorSchema returns the schema that 'schema' prints.
func editorSchema(t *testing.T, args ...string) *gojsonschema.Schema {
	t.Helper()
	got := call(t, "", append([]string{"schema"}, args...)...)
	if got.err != nil {
		t.Fatal(got.err)
	}
	schema, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(got.out))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// mistakesOf returns the mistakes that an editor shows in a document.
func mistakesOf(t *testing.T, schema *gojsonschema.Schema, document string) (mistakes []string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	result, err := schema.Validate(gojsonschema.NewBytesLoader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for _, mistake := range result.Errors() {
		mistakes = append(mistakes, mistake.String())
	}
	return mistakes
}

// TestEditorSchema: an editor accepts what the API server accepts, and marks unknown fields, wrong types, and names that the catalog does not have.
func TestEditorSchema(t *testing.T) {
	t.Parallel()
	plainSchema, ofCatalog := editorSchema(t), editorSchema(t, "../../manifests/catalog")
	const machine = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, labels: {a: b}}\nspec:\n  runStrategy: Always\n" +
		"  template: {metadata: {labels: {c: d}}, spec: {domain: {devices: {}}}}\n"
	for _, test := range []struct {
		why, document, plain, catalog string // the words of a mistake; empty for none
	}{
		{"a VM", machine, "", ""},
		{"an unknown field", strings.Replace(machine, "devices: {}", "devices: {}, cpu: {cors: 2}", 1), "cors", "cors"},
		{"a wrong type", strings.Replace(machine, "devices: {}", "devices: {}, cpu: {cores: two}", 1), "cores", "cores"},
		{"a quantity that is a number", strings.Replace(machine, "devices: {}", "devices: {}, memory: {guest: 1073741824}", 1), "", ""},
		{"a quantity that is text", strings.Replace(machine, "devices: {}", "devices: {}, memory: {guest: 1Gi}", 1), "", ""},
		{"no quantity", strings.Replace(machine, "devices: {}", "devices: {}, memory: {guest: 1GB}", 1), "guest", "guest"},
		{"null where it is allowed", strings.Replace(machine, "{labels: {c: d}}", "null", 1), "", ""},
		{"a label that is no text", strings.Replace(machine, "{a: b}", "{a: 1}", 1), "labels", "labels"},
		{"a name of the catalog", machine + "  instancetype: {name: small}\n  preference: {name: linux.sample}\n", "", ""},
		{"another instancetype", machine + "  instancetype: {name: smal}\n", "", "instancetype.name"},
		{"another preference", machine + "  preference: {name: linux}\n", "", "preference.name"},
		{"a kind that Kiln does not know", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: b}\n", "", ""},
		{"a policy with a misspelled field", "apiVersion: kilnvm.io/v1alpha1\nkind: GuestPolicy\nmetadata: {name: a}\nspec: {validation: []}\n",
			"validation", "validation"},
	} {
		for schema, want := range map[*gojsonschema.Schema]string{plainSchema: test.plain, ofCatalog: test.catalog} {
			mistakes := strings.Join(mistakesOf(t, schema, test.document), "\n")
			if (mistakes == "") != (want == "") || !strings.Contains(mistakes, want) {
				t.Errorf("%s: '%s', want '%s'", test.why, mistakes, want)
			}
		}
	}
	accepted := 0
	for _, folder := range []string{"../../examples", "../../manifests/catalog", "../../test/corpus"} {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for document := range strings.SplitSeq(string(raw), "\n---\n") {
				var object struct{ APIVersion, Kind string }
				if yaml.Unmarshal([]byte(document), &object) != nil || !strings.Contains(object.APIVersion, "kubevirt.io") {
					continue
				}
				_, file := write(t, document)
				var verdict struct{ Causes []struct{ Message string } }
				got := call(t, "", "validate", "-f", file, "-o", "json")
				if got.out == "" || json.Unmarshal(item(t, got), &verdict) != nil || len(verdict.Causes) > 0 {
					continue
				}
				accepted++
				if mistakes := mistakesOf(t, plainSchema, document); len(mistakes) > 0 {
					t.Errorf("%s is accepted, and an editor shows: %q", path, mistakes)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if accepted < 50 {
		t.Errorf("only %d objects were compared", accepted)
	}
}
