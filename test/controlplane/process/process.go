// Package process runs the programs of a control plane or of a node, each with a log of its own.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stopGrace is how long a process gets between SIGTERM and SIGKILL. An API server takes 2 s; all
// that a kill could lose is thrown away anyhow.
const stopGrace = 10 * time.Second

// Process is a running child.
type Process struct {
	// Name is the file name of its binary.
	Name string

	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended, for whatever reason
}

// start runs a binary in dir with its output in dir/NAME.log. Call it from the main goroutine
// only: the parent death signal is bound to the calling thread.
func start(binary, dir string, args []string) (*Process, error) {
	p := &Process{Name: filepath.Base(binary), done: make(chan struct{})}
	p.log = filepath.Join(dir, p.Name+".log")
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(binary, args...)
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &unix.SysProcAttr{
		Pdeathsig: unix.SIGKILL,
		// Ctrl-C in a terminal signals the whole foreground group. The children must not see it:
		// with etcd gone first, the API server hangs for minutes.
		Setpgid: true,
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.done)
	}()
	return p, nil
}

// PID is its process ID, as the namespace that started it counts.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process and returns when it is gone. It reports whether the process had to be killed. It may be called twice.
func (p *Process) Stop() (killed bool) {
	_ = p.cmd.Process.Signal(unix.SIGTERM) // fails only if it has ended
	select {
	case <-p.done:
		return false
	case <-time.After(stopGrace):
		p.Kill()
		return true
	}
}

// Kill ends the process without its consent and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.done
}

// Died returns the error of a process that ended by itself. It contains the end of the log, because the log is removed.
func (p *Process) Died() error {
	const lines = 20
	data, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Errorf("%s ended by itself (%s); its log cannot be read: %w", p.Name, p.cmd.ProcessState, err)
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return fmt.Errorf("%s ended by itself (%s); the end of its log:\n%s",
		p.Name, p.cmd.ProcessState, strings.Join(all[max(0, len(all)-lines):], "\n"))
}
