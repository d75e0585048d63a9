package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asCommand makes the test binary behave as the command itself, so that the tests kill and starve
// the real thing without building it a second time.
const asCommand = "CONTROLPLANE_TEST_AS_COMMAND"

var binaries string

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		os.Exit(0)
	}
	var err error
	if binaries, err = plane.findOrBuild(context.Background(), ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// supervisor is a running 'controlplane run'.
type supervisor struct {
	ready
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	stderr *os.File
}

func startSupervisor(t *testing.T, dir string, args ...string) *supervisor {
	t.Helper()
	s := &supervisor{cmd: exec.Command(os.Args[0], append([]string{"run", "--bin", binaries, "--dir", dir}, args...)...)}
	s.cmd.Env = append(os.Environ(), asCommand+"=1")
	s.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	s.stdout, s.cmd.Stdout = pipe(t)
	s.stderr, s.cmd.Stderr = pipe(t)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Stdout.(*os.File).Close()
	_ = s.cmd.Stderr.(*os.File).Close()
	t.Cleanup(func() {
		_ = s.stdin.Close()
		_ = s.cmd.Wait()
	})
	if err := json.NewDecoder(s.stdout).Decode(&s.ready); err != nil {
		_ = s.stdin.Close()
		log, _ := io.ReadAll(s.stderr)
		t.Fatalf("no line of JSON: %v\n%s", err, log)
	}
	return s
}

// pipe gives both ends as files, so that a test can close its end as a dying process would.
func pipe(t *testing.T) (*os.File, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// kubectl runs the real kubectl, with what it reads as standard input.
func (s *supervisor) kubectl(t *testing.T, kubeconfig, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.Bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+t.TempDir())
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *supervisor) mustKubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := s.kubectl(t, s.Kubeconfig, stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// gone waits until a process has ended. One that nobody has waited for yet (an orphan's new parent
// may be slow) has no command line any more.
func gone(t *testing.T, name string, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s (%d) is gone", name, pid), func() (string, bool) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return string(bytes.ReplaceAll(data, []byte{0}, []byte(" "))), err != nil || len(data) == 0
	})
}

// eventually waits up to a minute: the garbage collector takes its time, and machines are busy.
func eventually(t *testing.T, what string, check func() (string, bool)) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		seen, ok := check()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s; last seen: %s", what, seen)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestNothingStays(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*supervisor)
		// dirStays: nobody is left to remove it.
		dirStays bool
	}{
		{"standard input ends", func(s *supervisor) { _ = s.stdin.Close() }, false},
		{"terminated", func(s *supervisor) { _ = s.cmd.Process.Signal(unix.SIGTERM) }, false},
		{"Ctrl-C reaches the whole process group", func(s *supervisor) { _ = unix.Kill(-s.cmd.Process.Pid, unix.SIGINT) }, false},
		// As the starter's end closes them: progress has no reader any more, which must not end the cleaning up.
		{"the starter dies", func(s *supervisor) { _, _, _ = s.stderr.Close(), s.stdout.Close(), s.stdin.Close() }, false},
		{"the supervisor is killed", func(s *supervisor) { _ = s.cmd.Process.Kill() }, true},
		{"etcd is killed", func(s *supervisor) { _ = unix.Kill(s.PIDs["etcd"], unix.SIGKILL) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cp")
			s := startSupervisor(t, dir)
			if len(s.PIDs) != 3 {
				t.Fatalf("want three processes, got %v", s.PIDs)
			}
			tt.end(s)
			_ = s.cmd.Wait()
			for name, pid := range s.PIDs {
				gone(t, name, pid)
			}
			if _, err := os.Stat(dir); os.IsNotExist(err) == tt.dirStays {
				t.Errorf("directory: want it to stay: %t, got %v", tt.dirStays, err)
			}
		})
	}
}

func TestParallelAndDirectory(t *testing.T) {
	base := t.TempDir()
	first := filepath.Join(base, "a")
	done := make(chan *supervisor)
	go func() {
		defer close(done)
		done <- startSupervisor(t, filepath.Join(base, "b"))
	}()
	a, b := startSupervisor(t, first), <-done
	if b == nil || a.Server == b.Server {
		t.Fatalf("want two control planes, got %v and %v", a, b)
	}
	a.mustKubectl(t, "", "create", "namespace", "only-in-a")
	if out, err := b.kubectl(t, b.Kubeconfig, "", "get", "namespace", "only-in-a"); err == nil {
		t.Errorf("the two share their data: %s", out)
	}

	out, err := runIn(t, first)
	if want := "another control plane runs in '" + first + "'"; err == nil || !strings.Contains(out, want) {
		t.Errorf("the same directory twice: want %q, got %v: %s", want, err, out)
	}
	for _, path := range []string{a.Kubeconfig, filepath.Join(a.Logs, "sa.key"), filepath.Join(a.Logs, "apiserver.key")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: want mode 0600, got %v, %v", path, info, err)
		}
	}

	// What a killed supervisor leaves does not keep the next one from starting in its place.
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
	again := startSupervisor(t, first)
	if out, err := again.kubectl(t, again.Kubeconfig, "", "get", "namespace", "only-in-a"); err == nil {
		t.Errorf("old data is back: %s", out)
	}
}

// runIn runs the command with an empty standard input, so that it ends by itself.
func runIn(t *testing.T, dir string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "run", "--bin", binaries, "--dir", dir)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	r, w := pipe(t)
	defer w.Close()
	cmd.Stdin = r
	out, err := cmd.CombinedOutput()
	return string(out), err
}
