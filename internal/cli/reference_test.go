package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/reference"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

func TestReference(t *testing.T) {
	t.Setenv("KUBECACHEDIR", "") // the default of --cache-dir
	root := Command(genericclioptions.IOStreams{})
	files, err := filepath.Glob("details/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no details: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		if _, rest, err := root.Find(strings.Split(name, "-")); name != root.Name() && (err != nil || len(rest) > 0) {
			t.Errorf("%s: no command has this name", file)
		}
	}
	reference.Compare(t, "../../docs/reference/kubectl-kiln.md", root)
}
