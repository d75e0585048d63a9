// Package workflows checks .github/workflows for what actionlint, which 'make lint' runs, does not require.
package workflows

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what the test reads of a file.
type workflow struct {
	Permissions *map[string]string
	Jobs        map[string]struct {
		Permissions *map[string]string
		Steps       []struct {
			Uses, Run string
			With      map[string]any
		}
	}
}

// pinned is a step that uses an action by a full commit, and says of which release the commit is.
var pinned = regexp.MustCompile(`^ *(?:- )?uses: [\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

// judge returns what is wrong with a workflow.
func judge(t *testing.T, text string) (wrong []string) {
	t.Helper()
	var w workflow
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	if w.Permissions == nil || len(*w.Permissions) != 0 {
		wrong = append(wrong, "the workflow must have 'permissions: {}': each job names what it needs")
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); strings.Contains(line, "uses: ") && !pinned.MatchString(line) {
			wrong = append(wrong, "an action must be pinned by a full commit with its tag as a comment: "+line)
		}
	}
	for name, job := range w.Jobs {
		if job.Permissions == nil {
			wrong = append(wrong, "the job '"+name+"' must have permissions")
		}
		for _, step := range job.Steps {
			if strings.Contains(step.Run, "${{") {
				wrong = append(wrong, "the job '"+name+"' has an expression in a script: give it by 'env'")
			}
			if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
				wrong = append(wrong, "the job '"+name+"' leaves the token in the checkout: set persist-credentials: false")
			}
		}
	}
	return wrong
}

func TestWorkflows(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../.github/workflows/*.y*ml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%q %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range judge(t, string(raw)) {
			t.Errorf("%s: %s", file, wrong)
		}
	}
}

// TestJudge: each rule refuses what it is for.
func TestJudge(t *testing.T) {
	t.Parallel()
	const good = `
permissions: {}
jobs:
  build:
    permissions: {contents: read}
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with: {persist-credentials: false}
      - run: make
`
	if wrong := judge(t, good); len(wrong) != 0 {
		t.Errorf("%q", wrong)
	}
	for _, change := range []struct{ from, to, want string }{
		{"permissions: {}\n", "permissions: {contents: read}\n", "'permissions: {}'"},
		{"permissions: {}\n", "", "'permissions: {}'"},
		{"    permissions: {contents: read}\n", "", "must have permissions"},
		{"@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1", "@v7", "pinned by a full commit"},
		{" # v7.0.1", "", "pinned by a full commit"},
		{"persist-credentials: false", "fetch-depth: 0", "persist-credentials"},
		{"run: make", "run: echo ${{ github.event.pull_request.title }}", "expression in a script"},
	} {
		wrong := judge(t, strings.Replace(good, change.from, change.to, 1))
		if len(wrong) != 1 || !strings.Contains(wrong[0], change.want) {
			t.Errorf("'%s' instead of '%s': %q, want '%s'", change.to, change.from, wrong, change.want)
		}
	}
}
