package cli

import (
	"testing"

	"github.com/kilnvm/kiln/test/reference"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

func TestReference(t *testing.T) {
	t.Setenv("KUBECACHEDIR", "") // the default of --cache-dir
	reference.Compare(t, "../../docs/reference/kubectl-kiln.md", Command(genericclioptions.IOStreams{}))
}
