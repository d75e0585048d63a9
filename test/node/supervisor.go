package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/kilnvm/kiln/test/cluster"
)

// supervisor is the program of test/controlplane that owns the nodes. It ends them when its standard input ends, which happens however
// this process ends.
type supervisor struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    *bufio.Reader
	dir    string
	stderr lockedBuffer
	mutex  sync.Mutex
	ended  bool
}

// startSupervisor builds the supervisor and runs it, still without a node.
func startSupervisor(ctx context.Context, o Options) (*supervisor, error) {
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	dir, err := cluster.Dir("kiln-node")
	if err != nil {
		return nil, err
	}
	s := &supervisor{dir: dir}
	program, err := cluster.Supervisor(ctx, root, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	args := []string{"node", "run", "--dir", filepath.Join(dir, "nodes"), "--kubelet", o.Kubelet}
	if o.Restart {
		args = append(args, "--restart")
	}
	for _, arg := range o.APIServer {
		args = append(args, "--api-server", arg)
	}
	s.cmd = exec.Command(program, args...)
	s.cmd.Dir = root
	s.cmd.Stderr = &s.stderr
	// A process group of its own: Ctrl-C is for its starter, which stops guests before their node. It ends with its standard input.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *supervisor) start() (err error) {
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.out = bufio.NewReader(out)
	return s.cmd.Start()
}

// addNode starts a node by its name and waits until it is ready.
func (s *supervisor) addNode(ctx context.Context, name string) (*Node, error) {
	n := &Node{supervisor: s}
	if err := s.sendAndDecode(ctx, name, n); err != nil {
		return nil, err
	}
	return n, n.importSandbox(ctx)
}

// sendLine gives the supervisor a line and waits until it is done.
func (s *supervisor) sendLine(ctx context.Context, line string) error {
	return s.sendAndDecode(ctx, line, &struct{}{})
}

// sendAndDecode gives the supervisor a line and waits for the answer, or until the supervisor or the context has ended.
func (s *supervisor) sendAndDecode(ctx context.Context, line string, answer any) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, err := fmt.Fprintln(s.stdin, line); err != nil {
		return fmt.Errorf("the supervisor of the nodes has ended: %w\n%s", err, s.stderr.text())
	}
	answered := make(chan error, 1)
	go func() {
		line, err := s.out.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, answer)
		}
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil {
			return fmt.Errorf("node, '%s': %w\n%s", line, err, s.stderr.text())
		}
	case <-ctx.Done():
		return fmt.Errorf("node, '%s': %w\n%s", line, context.Cause(ctx), s.stderr.text())
	}
	return nil
}

// close is done once; later calls do nothing.
func (s *supervisor) close() error {
	if s.ended {
		return nil
	}
	s.ended = true
	err := errors.Join(s.stdin.Close(), s.cmd.Wait())
	if err != nil {
		err = fmt.Errorf("ending the nodes: %w\n%s", err, s.stderr.text())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// logTails returns the last lines of each program.
func (s *supervisor) logTails() string {
	const most = 3000
	var all strings.Builder
	fmt.Fprintf(&all, "== supervisor\n%s\n", s.stderr.text())
	files, _ := filepath.Glob(filepath.Join(s.dir, "nodes", "*", "*.log"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&all, "== %s\n%s\n", strings.TrimPrefix(file, s.dir), text[max(0, len(text)-most):])
	}
	return all.String()
}

// lockedBuffer is a buffer that is read while the supervisor writes to it.
type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (s *lockedBuffer) Write(p []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.buffer.Write(p)
}

func (s *lockedBuffer) text() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.buffer.String()
}

// repositoryRoot returns the folder of the repository, at or above the working directory.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the working directory is not in a checkout of kiln")
}
