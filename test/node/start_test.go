package node

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestStartByHand: with the commands that test/node/start prints, an image is imported and a pod of it runs. After an interrupt nothing is left.
func TestStartByHand(t *testing.T) {
	Require(t)
	program := filepath.Join(t.TempDir(), "start")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./start").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start := exec.Command(program)
	start.Stderr = os.Stderr
	stdout, err := start.StdoutPipe()
	if err == nil {
		err = start.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = start.Process.Signal(os.Interrupt) })
	var output strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		output.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "Ctrl-C") {
			break
		}
	}
	printed := func(pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(output.String())
		if found == nil {
			t.Fatalf("the output does not match '%s':\n%s", pattern, output.String())
		}
		return found[1]
	}
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte(pod("by-hand", on("node-1"))), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := printed(`KUBECONFIG=(\S+)`)
	script := printed(`(?m)^(export KUBECONFIG=.*)$`) + "\n" + strings.Replace(printed(`Import an image: (.*)`), "FILE", archived, 1) + `
kubectl apply -f ` + file + `
kubectl wait --for=condition=Ready --timeout=120s pod/by-hand || { kubectl describe pod by-hand; exit 1; }`
	if out, err := exec.CommandContext(t.Context(), "bash", "-e", "-c", script).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if err := start.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(stdout)
	if err == nil {
		err = start.Wait()
	}
	if err != nil {
		t.Errorf("after an interrupt: %v\n%s", err, rest)
	}
	if _, err := os.Stat(kubeconfig); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig is left: %v", err)
	}
}
