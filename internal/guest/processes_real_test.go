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
)

// init is the process outside of its namespace that is process 1 in it.
func (l *launcher) init(t *testing.T) int {
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

// processes are those of the launcher's namespace: their states by their ids, of the programs whose name begins so.
func (l *launcher) processes(t *testing.T, program string) map[int]string {
	t.Helper()
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", l.init(t)))
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

// kill sends SIGKILL to the only process of a program.
func (l *launcher) kill(t *testing.T, program string) {
	t.Helper()
	found := l.processes(t, program)
	if len(found) != 1 {
		t.Fatalf("processes of %s are %v, want one", program, found)
	}
	for pid := range found {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// term sends SIGTERM to process 1, as kubelet does.
func (l *launcher) term(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(l.init(t), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// exits waits for the end and returns the status of process 1.
func (l *launcher) exits(t *testing.T) int {
	t.Helper()
	select {
	case err := <-l.ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return l.cmd.ProcessState.ExitCode()
	case <-time.After(generous):
		t.Fatal("the launcher does not end")
	}
	return -1
}

// onDomain calls the libvirt of the pod.
func (l *launcher) onDomain(t *testing.T, call func(*rpc.Libvirt, rpc.Domain) error) {
	t.Helper()
	socket := filepath.Join(l.root, pod.Private, "run", "libvirt", "libvirt-sock")
	deadline := time.Now().Add(generous)
	for {
		client := rpc.NewWithDialer(dialers.NewLocal(dialers.WithSocket(socket)))
		err := client.ConnectToURI(rpc.QEMUSession)
		if err == nil {
			var domain rpc.Domain
			if domain, err = client.DomainLookupByName("default_guest"); err == nil {
				err = call(client, domain)
			}
			_ = client.Disconnect()
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
