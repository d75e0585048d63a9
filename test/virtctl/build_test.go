package virtctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// programs is the folder of the built commands: kubectl-kiln and virtctl.
var programs string

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
	_, err := goCommand("-C", "../..", "build", "-o", dir, "./cmd/kubectl-kiln")
	return err
}

// leftOut are the lines of virtctl's vm.go that the build leaves out: the layout of its help. Package templates imports pkg/controller for something else,
// and with it virtinformers.go and three modules about templates of VMs, which not every module proxy has.
var leftOut = []string{"\t\"kubevirt.io/kubevirt/pkg/virtctl/templates\"\n", "\tcmd.SetUsageTemplate(templates.UsageTemplate())\n"}

// buildVirtctl builds testdata/virtctl. Its package vm is pkg/virtctl/create/vm of the module kubevirt.io/kubevirt, whose files go.sum knows.
func buildVirtctl(dir string) error {
	out, err := goCommand("list", "-f", "{{.Dir}}", "kubevirt.io/kubevirt/pkg/virtctl/create/params") // a package, so that its module is downloaded
	if err != nil {
		return err
	}
	source := filepath.Join(strings.TrimSpace(out), "../vm")
	raw, err := os.ReadFile(filepath.Join(source, "vm.go"))
	if err != nil {
		return err
	}
	text := string(raw)
	for _, line := range leftOut {
		if strings.Count(text, line) != 1 {
			return fmt.Errorf("virtctl's vm.go does not have this line once: %s", line)
		}
		text = strings.Replace(text, line, "", 1)
	}
	edited := filepath.Join(dir, "vm.go")
	if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
		return err
	}
	target, err := filepath.Abs("testdata/virtctl/vm")
	if err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(target, "vm.go"): edited, filepath.Join(target, "params.go"): filepath.Join(source, "params.go"),
	}})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	_, err = goCommand("build", "-overlay", file, "-o", dir, "./testdata/virtctl")
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
