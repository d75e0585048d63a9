package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocumentsOfAFile: every way to write several into one file gives them all, with their lines.
func TestDocumentsOfAFile(t *testing.T) {
	t.Parallel()
	const one, two = "{apiVersion: a/v1, kind: A}", "{apiVersion: b/v1, kind: B}"
	json := strings.NewReplacer("{", `{"`, ": ", `": "`, ", ", `", "`, "}", `"}`)
	for text, lines := range map[string][]int{
		one + "\n---\n" + two + "\n":                                    {1, 3},
		"---\n" + one + "\n--- # the second\n\n" + two:                  {2, 5},
		"---\r\n" + one + "\r\n---\r\n" + two + "\r\n":                  {2, 4},
		"# comment\n---\n---\n--- " + one + "\n...\n" + two + "\n...\n": {4, 6},
		json.Replace(one) + "\n" + json.Replace(two) + "\n":             {1, 2},
		json.Replace(one) + json.Replace(two):                           {1, 1},
		"apiVersion: v1\nkind: List\nitems:\n- " + one + "\n- " + two:   {4, 5},
		"apiVersion: a/v1\nkind: AList\nitems:\n- {}\n- " + two:         {4, 5},
	} {
		var kinds string
		var at []int
		for _, found := range parseFile("file", []byte(text), nil, &Positions{}) {
			place, _ := found.Find("kind")
			kinds += found.GetKind()
			at = append(at, place.Number)
		}
		if diff := cmp.Diff(lines, at); diff != "" || kinds != "AB" {
			t.Errorf("kinds %s of\n%s\n(-want +got lines):\n%s", kinds, text, diff)
		}
	}
}
