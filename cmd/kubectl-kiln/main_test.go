package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary be the plugin, so that exit status and streams are those that a shell sees.
func TestMain(m *testing.M) {
	if os.Getenv("BE_KUBECTL_KILN") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestExitStatusAndStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := filepath.Join(dir, "good.yaml")
	bad := filepath.Join(dir, "bad.yaml")
	for file, text := range map[string]string{good: "[{name: root, containerDisk: {image: 'os:1'}}]", bad: "[{name: root}]"} {
		text = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: web}\nspec: {domain: {memory: {guest: 1Gi}, devices: {}}, volumes: " + text + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		why    string
		args   []string
		status int
		out    string
		errOut string
	}{
		{"accepted", []string{"validate", "-f", good}, 0, "is accepted", ""},
		{"rejected: causes on stderr", []string{"validate", "-f", bad}, 1, "", "spec.volumes[0]"},
		{"no answer", []string{"validate", "-f", filepath.Join(dir, "none")}, 2, "", "error: "},
		{"help is no error", []string{"--help"}, 0, "Commands:", ""},
	} {
		cmd := exec.Command(os.Args[0], test.args...)
		cmd.Env = append(os.Environ(), "BE_KUBECTL_KILN=1", "KUBECONFIG="+filepath.Join(dir, "none"))
		var out, errOut strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errOut
		err := cmd.Run()
		var exit *exec.ExitError
		status := 0
		if errors.As(err, &exit) {
			status = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if status != test.status || !strings.Contains(out.String(), test.out) || !strings.Contains(errOut.String(), test.errOut) ||
			test.out == "" && out.Len() > 0 || test.errOut == "" && errOut.Len() > 0 {
			t.Errorf("%s: exit status %d, want %d\nstdout: %s\nstderr: %s", test.why, status, test.status, out.String(), errOut.String())
		}
	}
}
