package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRepeatedKeys: the keys of YAML are read from the message of a library, which may change it.
func TestRepeatedKeys(t *testing.T) {
	const manifest = `# a comment
apiVersion: v1
kind: A
metadata:
  name: a
  labels: {x: "1", x: "2"}
kind: B
1: one
1: another
`
	const asJSON = `{"apiVersion": "v1", "kind": "A",
"kind": "B"}
`
	for name, test := range map[string]struct {
		text string
		want []RepeatedKey
	}{
		"YAML":            {manifest, []RepeatedKey{{6, `"x"`}, {7, `"kind"`}, {9, "1"}}},
		"second document": {"---\n" + manifest, []RepeatedKey{{7, `"x"`}, {8, `"kind"`}, {10, "1"}}},
		"JSON":            {asJSON, []RepeatedKey{{2, `"kind"`}}},
		"none":            {"apiVersion: v1\nkind: A\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Files{Stdin: strings.NewReader(test.text)}.ReadNames([]string{"-"})
			if err != nil || len(objects) != 1 {
				t.Fatalf("got %d objects: %v", len(objects), err)
			}
			if diff := cmp.Diff(test.want, objects[0].RepeatedKeys()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
