package backend_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/backends"
	"sigs.k8s.io/yaml"
)

type schema struct {
	Enum       []string          `json:"enum"`
	Properties map[string]schema `json:"properties"`
}

// enums are the fixed sets of values in the definition of HostProfile, by field.
func (s schema) enums(at string, found map[string][]string) {
	for name, field := range s.Properties {
		if strings.HasSuffix(name, "Selector") {
			continue
		}
		if len(field.Enum) > 0 {
			found[at+name] = field.Enum
		}
		field.enums(at+name+".", found)
	}
}

// TestWords: each value that the API server takes has a word of libvirt's, and no other value has.
func TestWords(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../manifests/crds/hostprofiles/hostprofiles.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kind struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema schema }
			}
		}
	}
	if err := yaml.Unmarshal(raw, &kind); err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	kind.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].enums("", found)
	if len(found) < 15 {
		t.Fatalf("fields with fixed values are %v", slices.Sorted(maps.Keys(found)))
	}
	for name, values := range found {
		names := strings.Split(name, ".")
		with := func(value string) (mistakes []string) {
			spec := backends.HostProfile(t, "p", "{"+strings.Join(names, ": {")+": "+value+strings.Repeat("}", len(names))).Spec
			for _, err := range backend.InvalidFields(&spec, nil) {
				mistakes = append(mistakes, err.Error())
			}
			return mistakes
		}
		for _, value := range values {
			if mistakes := with(value); len(mistakes) > 0 {
				t.Errorf("%s: the API server takes '%s': %v", name, value, mistakes)
			}
		}
		slices.Sort(values)
		want := []string{fmt.Sprintf(`%s: Unsupported value: "other": supported values: "%s"`, name, strings.Join(values, `", "`))}
		if diff := cmp.Diff(want, with("other")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
