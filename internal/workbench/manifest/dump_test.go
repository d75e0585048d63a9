package manifest

import "testing"

// TestGuessedKind: a kind is guessed only if a single line names it at the depth of the object.
func TestGuessedKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Pod\nspec:\n  kind: Other\n":    "Pod",
		"- kind: \"Pod\"\n  spec:\n    kind: Other\n":          "Pod",
		"- a: \"\n  kind: Pod\n  \"\n  kind: VirtualMachine\n": "",
		"- a: 1\n":            "",
		"{kind: Pod}":         "",
		"kind: !!str Pod\n":   "",
		"kind: Pod # comment": "",
	} {
		if got := (source{text: []byte(text)}).guessKind(); got != want {
			t.Errorf("guessed '%s', want '%s':\n%s", got, want, text)
		}
	}
	if got := (source{text: []byte(`{"kind": "Pod"}`), json: true}).guessKind(); got != "Pod" {
		t.Errorf("guessed '%s'", got)
	}
}
