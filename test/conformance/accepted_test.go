package main

import (
	"path/filepath"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/samples"
)

// TestAcceptedRenders: a VMI that admission lets in can be rendered. Only the host could still refuse it, and the assumed host
// has everything.
func TestAcceptedRenders(t *testing.T) {
	t.Parallel()
	shared := samples.Shared(t)
	if shared == "" {
		t.Skip("no recorded answers here: set KILN_SHARED to a folder with conformance/")
	}
	dir := filepath.Join(shared, "conformance")
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
