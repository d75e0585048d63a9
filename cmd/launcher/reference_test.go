package main

import (
	"testing"

	"github.com/kilnvm/kiln/test/reference"
)

func TestReference(t *testing.T) {
	t.Setenv("KUBECONFIG", "") // the default of --kubeconfig
	reference.Compare(t, "../../docs/reference/launcher.md", newCommand())
}
