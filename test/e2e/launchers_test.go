package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
)

// rivalLauncher is a launcher of a machine without libvirt: it claims nothing, and needs its name all the same.
type rivalLauncher struct {
	cmd    *exec.Cmd
	output bytes.Buffer
	ended  chan error
}

func (s space) launch(node string) *rivalLauncher {
	s.Helper()
	dir := s.TempDir()
	access := filepath.Join(dir, "kubeconfig")
	token := s.must(s.kubectl("", "create", "token", "kiln-launcher", "-n", s.on.Namespace)).stdout
	config := s.must(s.kubectl("", "config", "view", "--minify", "--flatten")).stdout
	if err := os.WriteFile(access, []byte(config), 0o600); err != nil {
		s.Fatal(err)
	}
	for _, args := range [][]string{
		{"config", "set-credentials", "launcher", "--token=" + token, "--kubeconfig=" + access},
		{"config", "set-context", "--current", "--user=launcher", "--kubeconfig=" + access},
	} {
		s.must(s.kubectl("", args...))
	}
	p := &rivalLauncher{ended: make(chan error, 1)}
	p.cmd = exec.Command(s.on.Program("launcher"), "node", "--kubeconfig", access, "--node", node, "--lease-namespace", s.on.Launchers,
		"--libvirt", filepath.Join(dir, "none"),
		"--state", filepath.Join(dir, "state"), "--config", filepath.Join(s.on.Dir, "configuration.yaml"))
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The death signal is sent when the thread ends that started the process, so that this one stays.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.ended <- p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = p.cmd.Process.Kill() // unless it has ended
	})
	return p
}

// end waits for the end of a process. Its output may be read then.
func (s space) end(p *rivalLauncher) error {
	s.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(2 * time.Minute):
		_ = p.cmd.Process.Kill()
		s.Fatalf("it does not end: %v\n%s", <-p.ended, p.output.String())
		return nil
	}
}

// TestTwoLaunchersOfOneName: the second one ends, and names the first. Once that has gone, in order or not, another one comes up.
func TestTwoLaunchersOfOneName(t *testing.T) {
	s := newSpace(t)
	node := s.name
	holder := func() string {
		return s.readIn(cluster.In{Namespace: s.on.Launchers, Kind: "lease"}, node, "{.spec.holderIdentity}").stdout
	}
	s.Cleanup(func() { s.kubectlAfter("delete", "lease", node, "-n", s.on.Launchers, "--ignore-not-found") })
	first := s.launch(node)
	s.eventually("the first launcher holds the Lease", func() bool { return holder() != "" })
	was := holder()

	second := s.launch(node)
	var exit *exec.ExitError
	if err := s.end(second); !errors.As(err, &exit) || exit.ExitCode() != 1 ||
		!strings.Contains(second.output.String(), "error: another launcher of this name is alive: '"+was+"'") {
		t.Errorf("the second launcher ends with %v, want exit status 1 and the holder '%s':\n%s", err, was, second.output.String())
	}
	if now := holder(); now != was {
		t.Errorf("the Lease has passed from '%s' to '%s'", was, now)
	}

	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("the first launcher: %v\n%s", err, first.output.String())
	}
	if err := s.end(first); err != nil {
		t.Errorf("the first launcher was asked to end: %v\n%s", err, first.output.String())
	}
	third := s.launch(node)
	s.eventually("the next one comes up", func() bool { return holder() != "" && holder() != was })
	was = holder()

	if err := third.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-third.ended
	fourth := s.launch(node)
	s.eventually("one comes up after a crash", func() bool { return holder() != was })
	if err := fourth.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.end(fourth); err != nil {
		t.Errorf("%v\n%s", err, fourth.output.String())
	}
}

// TestLaunchersHoldNoOtherLease: what a launcher may write is not the Lease of Kiln's own controllers.
func TestLaunchersHoldNoOtherLease(t *testing.T) {
	s := newSpace(t)
	for _, verb := range []string{"create", "update", "patch", "delete"} {
		stdout, _, _ := s.on.Kubectl(context.Background(), "", "auth", "can-i", verb, "leases", "-n", "kiln-system", launcher)
		if strings.TrimSpace(stdout) != "no" {
			t.Errorf("a launcher may %s Leases of kiln-system: %s", verb, stdout)
		}
	}
}
