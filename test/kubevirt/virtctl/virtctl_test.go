package virtctl

import (
	"strings"
	"testing"
)

// TestVirtctl: the program has all commands of virtctl and prints its version. Only the commands for templates of VMs fail, and their error says why.
func TestVirtctl(t *testing.T) {
	t.Parallel()
	if out := run(t, "virtctl", "version --client").out; !strings.Contains(out, version) {
		t.Errorf("virtctl version: %s", out)
	}
	help := run(t, "virtctl", "").out
	for _, command := range []string{"start", "stop", "restart", "console", "vnc", "pause", "addvolume", "port-forward", "memory-dump", "create"} {
		if !strings.Contains(help, "\n  "+command+" ") {
			t.Errorf("virtctl has no command %s:\n%s", command, help)
		}
	}
	for _, line := range []string{"template process my-template", "template process --file testdata/template.yaml", "template create --vm-name my-vm",
		"template convert --file testdata/template.yaml"} {
		if answer := run(t, "virtctl", line); answer.status == 0 || answer.out != "" || !strings.Contains(answer.errOut, "stand-in") {
			t.Errorf("%s: %+v", line, answer)
		}
	}
}
