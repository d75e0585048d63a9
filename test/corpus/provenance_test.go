package corpus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/admit"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestProvenance: every leaf of each explicit spec has one origin; what the user wrote, and only that, is ascribed to the
// user; and the VMI that is explained is the one that is admitted.
func TestProvenance(t *testing.T) {
	t.Parallel()
	cases, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	explained := 0
	for _, c := range cases {
		admitted, err := c.Admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !admitted.Verdict.Allowed() || !admitted.Known {
			continue
		}
		explained++
		compareOrigins(t, c, admitted.Explain(), admitted.Explicit)
	}
	if explained < 50 {
		t.Errorf("%d cases explained: the test looks at the wrong folder", explained)
	}
}

// compareOrigins: the explanation has each leaf of the admitted VMI once. The leaves whose origin is the user are the leaves of the manifest.
func compareOrigins(t *testing.T, c Case, explanation admit.Explanation, explicit *v1.VirtualMachineInstance) {
	t.Helper()
	want, got, users := flat(t, explicit.Spec), map[string]string{}, map[string]string{}
	for _, fact := range explanation.Fields {
		path, inSpec := strings.CutPrefix(fact.Path, "spec.")
		if !inSpec {
			continue
		}
		path = mapKey.ReplaceAllString(path, ".$1")
		if _, twice := got[path]; twice || fact.Origin.Kind == "" {
			t.Errorf("%s: %s has origin %+v, want exactly one", c.Name, path, fact.Origin)
		}
		got[path] = scalar(t, fact.Value)
		if fact.Origin.Kind == admit.FromUser {
			users[path] = got[path]
		}
	}
	for path, value := range want {
		if _, found := got[path]; value == "{}" && !found {
			delete(want, path) // Go writes 'devices: {}' for a struct in which nobody set anything
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: leaves of the admitted spec and of its explanation (-admitted +explained):\n%s", c.Name, diff)
	}
	compareUsers(t, c.Name, manifestLeaves(t, c), users)
}

// compareUsers: a leaf of the manifest is the user's, unless a step put something below it ('disk: {}') or corrected it.
func compareUsers(t *testing.T, name string, written, users map[string]string) {
	t.Helper()
	for path := range users {
		if _, found := written[path]; !found {
			t.Errorf("%s: %s is ascribed to the user, who did not write it", name, path)
		}
	}
	for path, value := range written {
		if _, found := users[path]; !found && value != "{}" && value != "false" && value != "0" && value != `""` {
			t.Errorf("%s: %s is the user's %s, but not ascribed to the user", name, path, value)
		}
	}
}

// manifestLeaves reads the file of the case again, without Go types.
func manifestLeaves(t *testing.T, c Case) map[string]string {
	t.Helper()
	file, under := "vmi.yaml", []string{"spec"}
	if c.VM != nil {
		file, under = "vm.yaml", []string{"spec", "template", "spec"}
	}
	raw, err := os.ReadFile(filepath.Join(c.Dir, file))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	for _, key := range under {
		object, _ = object[key].(map[string]any)
	}
	leaves := map[string]string{}
	flatten(t, "", object, leaves)
	return leaves
}

// flat are the leaves of an object by path, through JSON.
func flat(t *testing.T, spec any) map[string]string {
	t.Helper()
	raw, err := yaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	leaves := map[string]string{}
	flatten(t, "", object, leaves)
	return leaves
}

func flatten(t *testing.T, at string, value any, into map[string]string) {
	t.Helper()
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			flatten(t, strings.TrimPrefix(at+"."+key, "."), inner, into)
		}
		if len(value) > 0 {
			return
		}
	case []any:
		for i, inner := range value {
			flatten(t, fmt.Sprintf("%s[%d]", at, i), inner, into)
		}
		return
	case nil:
		return
	}
	into[at] = scalar(t, value)
}

func scalar(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// mapKey is how a fact spells the key of a map.
var mapKey = regexp.MustCompile(`\[([^\]\d][^\]]*)\]`)
