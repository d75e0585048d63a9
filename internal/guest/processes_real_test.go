package guest_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/poll"
)

// initPID returns the ID, outside of the namespace, of the process that is process 1 in it.
func (l *launcher) initPID(t *testing.T) int {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", l.cmd.Process.Pid, l.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(children) + " 0")[0])
	if err != nil || pid == 0 {
		t.Fatalf("children of the namespace are '%s'", children)
	}
	return pid
}

// processStates returns the states, by process ID, of the processes in the launcher's namespace whose names begin with program.
func (l *launcher) processStates(t *testing.T, program string) map[int]string {
	t.Helper()
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", l.initPID(t)))
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if space, gone := os.Readlink(filepath.Join(dir, "ns/pid")); err != nil || gone != nil || space != own {
			continue
		}
		name := string(stat[bytes.IndexByte(stat, '(')+1 : bytes.LastIndexByte(stat, ')')])
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && strings.HasPrefix(name, program) {
			found[pid] = string(stat[bytes.LastIndexByte(stat, ')')+2 : bytes.LastIndexByte(stat, ')')+3])
		}
	}
	return found
}

// killProgram sends SIGKILL to the only process of a program.
func (l *launcher) killProgram(t *testing.T, program string) {
	t.Helper()
	found := l.processStates(t, program)
	if len(found) != 1 {
		t.Fatalf("processes of %s are %v, want one", program, found)
	}
	for pid := range found {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// sendTERM sends SIGTERM to process 1, as kubelet does.
func (l *launcher) sendTERM(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(l.initPID(t), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// waitForExit waits for the end and returns the status of process 1.
func (l *launcher) waitForExit(t *testing.T) int {
	t.Helper()
	select {
	case err := <-l.ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return l.cmd.ProcessState.ExitCode()
	case <-time.After(longLimit):
		t.Fatal("the launcher does not end")
	}
	return -1
}

// callLibvirt calls the pod's libvirt with the guest's domain, until the call succeeds.
func (l *launcher) callLibvirt(t *testing.T, call func(*rpc.Libvirt, rpc.Domain) error) {
	t.Helper()
	socket := filepath.Join(l.root, pod.Private, "run", "libvirt", "libvirt-sock")
	var err error
	if !poll.Until(longLimit, func() bool {
		client := rpc.NewWithDialer(dialers.NewLocal(dialers.WithSocket(socket)))
		err = client.ConnectToURI(rpc.QEMUSession)
		if err == nil {
			var domain rpc.Domain
			if domain, err = client.DomainLookupByName("default_guest"); err == nil {
				err = call(client, domain)
			}
			_ = client.Disconnect()
		}
		return err == nil
	}) {
		t.Fatal(err)
	}
}
