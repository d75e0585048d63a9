package pods

import (
	"fmt"
	"strings"
)

// connected waits until the agent of the guest answers.
func (n *tenant) connected(vm string) {
	n.Helper()
	n.kubectl("wait", "vmi/"+vm, "--for=condition=AgentConnected", "--timeout=300s")
}

// writesOn waits until the guest has written more than before, as it does when a freeze has ended.
func (n *tenant) writesOn(vm string) {
	n.Helper()
	before := written(n.console(vm, "KILN-WROTE"))
	n.eventually("guest "+vm+" writes on", func() (string, bool) {
		now := written(n.console(vm, "KILN-WROTE"))
		return fmt.Sprintf("%d files, and then %d", before, now), now > before+2
	})
}

// written returns the number of the last file that a guest with an agent has on its scratch disk.
func written(log string) (last int) {
	for line := range strings.Lines(log) {
		_, _ = fmt.Sscanf(line, "KILN-WROTE %d", &last)
	}
	return last
}
