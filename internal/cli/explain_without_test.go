package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// withoutEach is a preference without each of its values, empty objects and elements of lists, by their paths.
func withoutEach(t *testing.T, spec map[string]any) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	var visit func(path string, inside map[string]any)
	visit = func(path string, inside map[string]any) {
		for key, value := range maps.Clone(inside) {
			at := strings.TrimPrefix(path+"."+key, ".")
			if path == "annotations" {
				at = path + "[" + key + "]"
			}
			if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
				visit(at, inner)
				continue
			}
			if list, ok := value.([]any); ok {
				for i := range list {
					inside[key] = slices.Delete(slices.Clone(list), i, i+1)
					all[fmt.Sprintf("%s[%d]", at, i)] = copied(t, spec)
				}
			} else {
				delete(inside, key)
				all[at] = copied(t, spec)
			}
			inside[key] = value
		}
	}
	visit("", spec)
	return all
}

func copied(t *testing.T, spec map[string]any) (c map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(canonical(t, spec)), &c); err != nil {
		t.Fatal(err)
	}
	return c
}
