package main

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

// process is a running child. done is closed when it has ended, for whatever reason.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// start runs a binary in dir with its output in dir/NAME.log. Call it from the main goroutine
// only: the parent death signal is bound to the calling thread.
func start(binary, dir string, args []string) (*process, error) {
	p := &process{name: filepath.Base(binary), done: make(chan struct{})}
	p.log = filepath.Join(dir, p.name+".log")
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
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.done)
	}()
	return p, nil
}

// stop ends the process and returns when it is gone. It may be called twice.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(unix.SIGTERM) // fails only if it has ended
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		progress("%s did not stop within %s and is killed", p.name, stopGrace)
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// died is the error of a process that ended by itself, with the end of its log, since the log is
// about to be removed.
func (p *process) died() error {
	const lines = 20
	data, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Errorf("%s ended by itself (%s); its log cannot be read: %w", p.name, p.cmd.ProcessState, err)
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return fmt.Errorf("%s ended by itself (%s); the end of its log:\n%s",
		p.name, p.cmd.ProcessState, strings.Join(all[max(0, len(all)-lines):], "\n"))
}
