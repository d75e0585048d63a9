package hostresources

import (
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/explicit"
)

// TestHangingStorage: a VMI whose storage hangs gets an error, and is not bound a second time while the first attempt hangs.
func TestHangingStorage(t *testing.T) {
	t.Parallel()
	machine := &BareMachine{State: t.TempDir()}
	vmi := explicit.Plain(t, "hangs")
	machine.running.limit = 50 * time.Millisecond
	end := machine.running.beginBinding(vmi.UID)
	if end == nil {
		t.Fatal("it is being bound already")
	}
	if _, errs := machine.Bind(t.Context(), vmi, nil); len(errs) != 1 || !strings.Contains(errs[0].Error(), "still does not answer") {
		t.Errorf("errors are %v", errs)
	}
	end()
	machine.running.limit = 0
	if bindings, errs := machine.Bind(t.Context(), vmi, nil); len(errs) > 0 || bindings.NVRAM == "" {
		t.Errorf("%+v, %v when the storage answers again", bindings, errs)
	}
}
