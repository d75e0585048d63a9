package corpus

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/manifests/crds"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// schemas of the kinds that Kiln serves, by kind.
type schemas map[string]*validate.SchemaValidator

func readSchemas(t *testing.T) schemas {
	t.Helper()
	all := schemas{}
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := crds.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			if !version.Storage {
				continue
			}
			raw, err := json.Marshal(version.Schema.OpenAPIV3Schema)
			if err != nil {
				t.Fatal(err)
			}
			var openAPI spec.Schema
			if err := json.Unmarshal(raw, &openAPI); err != nil {
				t.Fatal(err)
			}
			all[crd.Spec.Names.Kind] = validate.NewSchemaValidator(&openAPI, nil, "", strfmt.Default)
		}
	}
	return all
}

// refuses reports whether the schema refuses a field of an object, which is YAML.
func (s schemas) refuses(object []byte, path string) bool {
	content := map[string]any{}
	if yaml.Unmarshal(object, &content) != nil {
		return false
	}
	kind, _ := content["kind"].(string)
	judge := s[kind]
	if judge == nil {
		return false
	}
	for _, err := range judge.Validate(content).Errors {
		if invalid, is := err.(*openapierrors.Validation); is && strings.TrimPrefix(invalid.Name, ".") == path {
			return true
		}
	}
	return false
}

// named is how a policy's message ends: with the rule that it keeps.
var named = regexp.MustCompile(`\(rule ([a-z0-9/-]+)\)`)

// readPolicies are the names of the rules that policies keep.
func readPolicies(t *testing.T) map[string]bool {
	t.Helper()
	rules := map[string]bool{}
	files, err := filepath.Glob("../../manifests/policies/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range named.FindAllSubmatch(text, -1) {
			rules[string(match[1])] = true
		}
	}
	return rules
}
