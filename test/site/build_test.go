package site

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// built returns the folder that 'make site' writes, and makes it. It skips the test where there is no npm, or Node is too old for VitePress.
func built(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is missing: the site needs npm of Node 20.19, 22.12 or later, which Debian 12 does not have")
	}
	version, err := exec.Command("node", "--version").Output()
	if err != nil {
		t.Skipf("node is missing: %v", err)
	}
	if major := regexp.MustCompile(`^v(\d+)`).FindSubmatch(version); major != nil {
		if n, _ := strconv.Atoi(string(major[1])); n < 20 {
			t.Skipf("VitePress needs Node 20.19, 22.12 or later, and this is %s", version)
		}
	}
	runMake(t, "site")
	return filepath.Join("..", "..", "bin", "site", "dist")
}

// runMake runs a target of the Makefile.
func runMake(t *testing.T, target string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "make", "-C", "../..", "--no-print-directory", target)
	command.Env = append(os.Environ(), "NO_COLOR=1")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("make %s: %v\n%s", target, err, out)
	}
}
