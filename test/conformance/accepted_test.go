package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
)

// TestAcceptedRenders: a guest that admission lets in can be rendered. Only the host could still refuse it, and the assumed host
// has everything.
func TestAcceptedRenders(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("KILN_SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	dir = filepath.Join(dir, "conformance")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no recorded answers here: set KILN_SHARED to a folder with conformance/")
	}
	count := map[string]int{}
	err := eachAccepted(dir, func(corpus string, guest acceptedGuest) error {
		count[corpus]++
		_, errs := render.Domain(render.Machine{VMI: guest.VMI, Defaults: guest.cluster.Frontend,
			Host: backend.Assumed(guest.VMI.Spec.Architecture), Bindings: backend.AssumedBindings(guest.VMI)})
		for _, err := range errs {
			t.Errorf("%s is accepted and cannot be rendered: %v", guest.ID, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range corpora {
		t.Logf("%s: %d guests accepted and rendered", c.name, count[c.name])
		if count[c.name] == 0 {
			t.Errorf("no guest of corpus %s is accepted", c.name)
		}
	}
}
