package virtctl

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// programs is the folder of the built commands: kubectl-kiln and virtctl.
var programs string

// version is the version of KubeVirt's modules.
const version = "v1.9.0"

// kubeconfig names a server that does not exist. Virtctl makes a client before it makes a manifest, and asks it nothing.
const kubeconfig = `{apiVersion: v1, kind: Config, current-context: none, clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: none, context: {cluster: none, user: none}}], users: [{name: none, user: {token: none}}]}`

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "kiln-virtctl-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		programs = dir
		if err := os.WriteFile(filepath.Join(dir, "config"), []byte(kubeconfig), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		for _, build := range []func(dir string) error{buildKiln, buildVirtctl} {
			if err := build(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return m.Run()
	}())
}

func buildKiln(dir string) error {
	_, err := goCommand("-C", "../../..", "build", "-o", dir, "./cmd/kubectl-kiln")
	return err
}

// buildVirtctl builds all of virtctl. After an error it compares its version, which the linker sets, with the server's.
func buildVirtctl(dir string) error {
	_, err := goCommand("build", "-o", dir, "-ldflags", "-s -w -X kubevirt.io/client-go/version.gitVersion="+version, "kubevirt.io/kubevirt/cmd/virtctl")
	return err
}

func goCommand(arguments ...string) (string, error) {
	command := exec.Command("go", arguments...)
	var errOut bytes.Buffer
	command.Stderr = &errOut
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, errOut.String())
	}
	return string(out), nil
}

// result is what a program answers to a command line.
type result struct {
	out, errOut string
	status      int
}

// run has a shell run a command line that begins with the name of its program, as a reader of the documentation would.
func run(t *testing.T, program, line string) result {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", `exec "$0" `+line, filepath.Join(programs, program))
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(programs, "config"))
	var out, errOut bytes.Buffer
	command.Stdout, command.Stderr = &out, &errOut
	if err := command.Run(); command.ProcessState == nil {
		t.Fatal(err)
	}
	return result{out.String(), errOut.String(), command.ProcessState.ExitCode()}
}
