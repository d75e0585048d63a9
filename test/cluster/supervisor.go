package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
)

// Plane is a bare control plane: a real API server with the controllers that make deletion work, and nothing of Kiln's.
type Plane struct {
	// Kubeconfig is the path of the administrator's.
	Kubeconfig string `json:"kubeconfig"`
	// Users are the paths of those that were asked for with --user, by name.
	Users map[string]string `json:"users"`
	// Bin is the folder of its programs, kubectl among them.
	Bin string `json:"bin"`
	// Logs is the folder of their logs.
	Logs string `json:"logs"`
	// PIDs are the process IDs that its programs had at the start, by name.
	PIDs map[string]int `json:"pids"`

	stdin io.Closer
	cmd   *exec.Cmd
	log   bytes.Buffer
}

// Supervisor builds the program of test/controlplane into dir and returns its path. It is a module of its own, with its own dependencies.
func Supervisor(ctx context.Context, root, dir string) (string, error) {
	binary := filepath.Join(dir, "controlplane")
	return binary, sources{root: root, module: "test/controlplane", folders: []string{"."}}.build(ctx, dir)
}

// StartPlane builds test/controlplane of the repository and runs it with further arguments, in a folder that the caller removes. It ends
// with its standard input, however this process ends.
func StartPlane(root, dir string, args ...string) (*Plane, error) {
	binary, err := Supervisor(context.Background(), root, dir)
	if err != nil {
		return nil, err
	}
	p := &Plane{cmd: exec.Command(binary, append([]string{"run", "--dir", filepath.Join(dir, "plane")}, args...)...)}
	p.cmd.Stderr = &p.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.announced(out); err != nil {
		return nil, errors.Join(fmt.Errorf("the control plane did not start: %w", err), p.Close())
	}
	return p, nil
}

// announced waits for the line that says that it is ready, and where.
func (p *Plane) announced(out io.Reader) error {
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, p)
}

// Kubectl is the path of its own.
func (p *Plane) Kubectl() string { return filepath.Join(p.Bin, "kubectl") }

// Close ends it and waits until it has. The error has its log.
func (p *Plane) Close() error {
	if err := errors.Join(p.stdin.Close(), p.cmd.Wait()); err != nil {
		return fmt.Errorf("control plane: %w\n%s", err, p.log.String())
	}
	return nil
}
