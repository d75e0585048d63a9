package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
)

// TestMorePartsThanAMachineHas: the command line counts as the webhook does, before it judges anything.
func TestMorePartsThanAMachineHas(t *testing.T) {
	t.Parallel()
	inputs := strings.TrimSuffix(strings.Repeat("{type: mouse, name: a, bus: usb}, ", 600), ", ")
	_, file := write(t, strings.Replace(vm, "devices: {}", "devices: {inputs: ["+inputs+"]}", 1))
	got := call(t, "", "validate", "-f", file)
	if !errors.Is(got.err, cmdutil.ErrRejected) ||
		!strings.Contains(got.errOut, "spec.template.spec.domain.devices.inputs: Too many: has 600 elements, at most 512 are allowed") ||
		strings.Count(got.errOut, "spec.template") != 1 {
		t.Errorf("%v: %.600s", got.err, got.errOut)
	}
}
