package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kilnvm/kiln/test/cgroups"
)

// Require skips a test if this machine cannot have a node: without root and its capabilities, or without the cgroups. A missing program does not skip the
// test: 'make deps node' gets it, and a test that needs it fails.
func Require(t testing.TB) {
	t.Helper()
	if err := Incapable(); err != nil {
		t.Skipf("SKIPPED, THIS MACHINE CANNOT RUN A KUBERNETES NODE: %v", err)
	}
}

// capabilities that a node needs, by their numbers in capabilities(7).
var capabilities = map[string]int{"CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN, "CAP_MKNOD": unix.CAP_MKNOD}

// Incapable returns an error that says what the machine lacks; nil means that it can run nodes.
func Incapable() error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	effective, err := effectiveCapabilities(string(status))
	if err != nil {
		return err
	}
	for name, bit := range capabilities {
		if effective&(1<<bit) == 0 {
			return fmt.Errorf("root without %s", name)
		}
	}
	groups, err := cgroups.Read()
	if err != nil {
		return err
	}
	needed := []string{"cpu", "memory", "pids", "cpuset"}
	if !groups.Unified {
		needed = append(needed, "devices", "freezer") // version 2 has no controllers for these: every cgroup can be frozen, and BPF programs guard devices
	}
	for _, controller := range needed {
		if _, err := groups.Root(controller); err != nil {
			return err
		}
	}
	return tryNamespaces()
}

// effectiveCapabilities reads the effective capabilities of a process, a hexadecimal number.
func effectiveCapabilities(status string) (bits uint64, err error) {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, "CapEff:"); found {
			_, err := fmt.Sscanf(strings.TrimSpace(value), "%x", &bits)
			return bits, err
		}
	}
	return 0, errors.New("/proc/self/status has no CapEff")
}

// tryNamespaces tries to create a node's namespaces, with a mount in them: a container's seccomp or AppArmor profile may forbid what capabilities allow.
func tryNamespaces() error {
	const overlay = "mount -t tmpfs tmpfs /tmp && mkdir /tmp/u /tmp/w && mount -t overlay -o lowerdir=/etc,upperdir=/tmp/u,workdir=/tmp/w over /etc"
	cmd := exec.Command("unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", overlay)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("namespaces with an overlay cannot be made: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
