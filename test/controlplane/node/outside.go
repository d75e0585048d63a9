package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// outside is a node, seen from the machine.
type outside struct {
	Spec
	cmd   *exec.Cmd
	stdin io.Closer     // its end asks Inside to stop
	store *os.File      // its lock
	ended chan struct{} // closed when process 1 has
	hears chan<- string // of that, too, unless it was killed
	// killed tells that it was to end.
	killed atomic.Bool
}

// startInit starts process 1 and gives its standard output.
func (n *outside) startInit() (*os.File, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	n.cmd.Stdout = in
	if err := n.cmd.Start(); err != nil {
		close(n.ended)
		return nil, errors.Join(err, out.Close())
	}
	cmd, ended := n.cmd, n.ended
	go func() {
		_ = cmd.Wait() // how it ended is on our standard error
		killed := n.killed.Load()
		close(ended)
		if !killed {
			n.hears <- n.Name
		}
	}()
	return out, nil
}

// stopGrace is how long the node's pods may take to end.
const stopGrace = time.Minute

// close ends the node and removes what outlives its namespaces.
func (n *outside) close() error {
	var errs []error
	if n.stdin != nil { // started
		loops, err := loopsBelow(n.Dir)
		errs = append(errs, err)
		_ = n.stdin.Close() // fails only if it has been closed
		select {
		case <-n.ended:
		case <-time.After(stopGrace):
			errs = append(errs, fmt.Errorf("node '%s' did not stop within %s and was killed", n.Name, stopGrace), n.cmd.Process.Kill())
			<-n.ended
		}
		errs = append(errs, detachLoops(loops), removeCgroup(n.Cgroup))
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(n.Dir))...)
}

// lockStore gives the first directory below stores that no other containerd uses.
func lockStore(stores string) (*os.File, error) {
	for i := 1; ; i++ {
		path := filepath.Join(stores, fmt.Sprint(i))
		if err := os.MkdirAll(path, 0o711); err != nil {
			return nil, err
		}
		dir, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return dir, nil
		}
		if err := dir.Close(); err != nil {
			return nil, err
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
	}
}
