package record

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWithoutConsequences: consequences are left out beside their causes, and leaving them out never changes the verdict.
func TestWithoutConsequences(t *testing.T) {
	t.Parallel()
	disk := Change{Device: "disk.extra", Text: "disk 'extra' is added", Verdict: NeedsRestart}
	moved := Change{Device: "disk.root", Text: "disk 'root' moves", Verdict: Breaks}
	port := Change{Device: "controller.pci.15", Text: "controller 'pci.15' is added", Verdict: NeedsRestart}
	usb := Change{Device: "controller.usb.0", Text: "controller 'usb.0' is added", Verdict: NeedsRestart}
	rng := Change{Device: "rng.rng", Text: "rng 'rng' moves", Verdict: Breaks}
	added := Change{Device: "rng.rng", Text: "rng 'rng' is added", Verdict: NeedsRestart}
	memory := Change{Part: PartMemory, Text: "the memory changes", Verdict: NeedsRestart}
	for why, c := range map[string]struct{ changes, want []Change }{
		"none":                            {nil, nil},
		"a port beside a disk":            {[]Change{port, disk}, []Change{disk}},
		"a port beside the memory":        {[]Change{port, memory}, []Change{memory}},
		"ports alone":                     {[]Change{port}, []Change{port}},
		"another controller":              {[]Change{usb, disk}, []Change{usb, disk}},
		"a moved rng beside a moved disk": {[]Change{rng, moved}, []Change{moved}},
		"a moved rng is the worst":        {[]Change{rng, disk}, []Change{rng, disk}},
		"an rng is added":                 {[]Change{added, disk}, []Change{added, disk}},
	} {
		if diff := cmp.Diff(c.want, WithoutConsequences(c.changes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
}
