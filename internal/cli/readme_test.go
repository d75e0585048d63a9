package cli

import (
	"os"
	"strings"
	"testing"
)

// TestReadme runs each command that the README shows an output of, at the root of the repository. What it shows between lines of '...' must stand
// in the output in one piece and in this order, and the manifest that it begins with must be the file.
func TestReadme(t *testing.T) {
	t.Chdir("../..")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("examples/vm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, manifest, _ := strings.Cut(string(example), "\n") // its first line is a comment
	if !strings.Contains(string(readme), "```yaml\n"+manifest+"```\n") {
		t.Error("README.md shows another VM than examples/vm.yaml")
	}
	shown := 0
	for _, part := range strings.Split(string(readme), "\n    kubectl kiln ")[1:] {
		command, rest, _ := strings.Cut(part, "\n")
		fenced := strings.SplitN(rest, "```", 3)
		if len(fenced) < 3 || strings.TrimSpace(fenced[0]) != "" {
			t.Errorf("README.md shows no output of '%s'", command)
			continue
		}
		_, excerpt, _ := strings.Cut(fenced[1], "\n") // after the name of the language
		got := call(t, "", strings.Fields(command)...)
		if missing := missingIn(got.out+got.errOut, excerpt); missing != "" {
			t.Errorf("'kubectl kiln %s' does not print\n%s\nbut\n%s%s", command, missing, got.out, got.errOut)
		}
		shown++
	}
	for command, want := range map[string]string{
		"explain -f examples/vm.yaml --catalog manifests/catalog":        "instancetype small@small-",
		"validate -f examples/conflict.yaml --catalog manifests/catalog": "conflicts with VirtualMachineClusterInstancetype 'small'",
		"audit -f examples/audit/dump.yaml":                              "3 objects judged by the rules of Kiln beside KubeVirt v1.8, 2 would be refused by 2 rules",
	} {
		if !strings.Contains(string(readme), "\n    go run ./cmd/kubectl-kiln "+command) {
			t.Errorf("README.md no longer begins with '%s'", command)
		}
		if got := call(t, "", strings.Fields(command)...); !strings.Contains(got.out+got.errOut, want) {
			t.Errorf("'kubectl kiln %s' does not print\n%s\nbut\n%s%s", command, want, got.out, got.errOut)
		}
	}
	if shown < 5 {
		t.Errorf("found %d commands with their output: the README has another form than this test reads", shown)
	}
}

func TestReadmeOfNothing(t *testing.T) {
	const output = "a: 1\nb: 2\nc: 3\n"
	for _, c := range []struct{ excerpt, missing string }{
		{"a: 1\nb: 2\n", ""}, {"...\nb: 2\n...\n", ""}, {"a: 1\n...\nc: 3\n", ""},
		{"b: 2\n...\na: 1\n", "a: 1\n"}, {"a: 1\nc: 3\n", "a: 1\nc: 3\n"}, {"b:\n", "b:\n"}, {"...\n", "..."},
	} {
		if got := missingIn(output, c.excerpt); got != c.missing {
			t.Errorf("of '%s' '%s' is missing, want '%s'", c.excerpt, got, c.missing)
		}
	}
}

// missingIn returns the first piece of an excerpt that does not follow, as whole lines, what stands before it in the text. An excerpt of
// nothing is missing too.
func missingIn(text, excerpt string) string {
	text, pieces := "\n"+text, 0
	for _, piece := range strings.Split("\n"+excerpt, "\n...") {
		piece = strings.TrimPrefix(piece, "\n")
		if piece == "" {
			continue
		}
		piece = strings.TrimSuffix(piece, "\n") + "\n"
		_, after, found := strings.Cut(text, "\n"+piece)
		if !found {
			return piece
		}
		text, pieces = "\n"+after, pieces+1
	}
	if pieces == 0 {
		return "..."
	}
	return ""
}
