package record

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/internal/leaves"
	v1 "kubevirt.io/api/core/v1"
)

// TestParts: each has a text of its own, a verdict, and a field that the API has.
func TestParts(t *testing.T) {
	t.Parallel()
	seen := map[string]Part{}
	for id, part := range partDetails {
		if other, twice := seen[part.text]; twice || part.text == "" {
			t.Errorf("'%s' is the text of %s and %s", part.text, id, other)
		}
		seen[part.text] = id
		if part.verdict != Breaks && part.verdict != NeedsRestart {
			t.Errorf("%s: no verdict on its change", id)
		}
		below, found := strings.CutPrefix(id.Path().String(), "spec.domain.")
		if id == PartFirmwareFiles {
			continue
		}
		if !found || !has(reflect.TypeFor[v1.DomainSpec](), strings.Split(below, ".")) {
			t.Errorf("%s: the API has no field '%s'", id, id.Path())
		}
	}
}

func has(in reflect.Type, path []string) bool {
	if len(path) == 0 {
		return true
	}
	for in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	for _, f := range leaves.Fields(in) {
		if f.Name == path[0] {
			return has(in.Field(f.Index).Type, path[1:])
		}
	}
	return false
}
