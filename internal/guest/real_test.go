package guest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
)

// These tests run the launcher as process 1 of its own namespaces, with the unprivileged user of a guest's pod, and with a real libvirtd.

// launcherUID is the user ID of the launcher's image.
const launcherUID = 107

// longLimit bounds waits for real guests; a busy machine is slow.
const longLimit = guest.BootTimeout

// launcher is a running launcher.
type launcher struct {
	cmd  *exec.Cmd
	root string
	out  lockedBuffer
	log  lockedBuffer
	// ended receives the result of the process once.
	ended chan error
}

// lockedBuffer contains the output of a process.
type lockedBuffer struct {
	mutex sync.Mutex
	bytes.Buffer
}

func (t *lockedBuffer) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.Buffer.Write(p)
}

func (t *lockedBuffer) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.Buffer.String()
}

// launchScript gives the user a name, which libvirt requires, and executes the launcher.
const launchScript = `set -e
mount --bind "$0/passwd" /etc/passwd
exec setpriv --reuid 107 --regid 107 --clear-groups --no-new-privs --bounding-set -all "$@"`

// startLauncher starts the launcher for a VMI of a cluster. volumes fills the folder that takes the place of '/'.
func startLauncher(t *testing.T, c *fakeAPIServer, volumes func(root string)) *launcher {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: the launcher runs in namespaces of its own")
	}
	if err := libvirt.Missing(); err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("", "kg-") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	l := &launcher{root: root, ended: make(chan error, 1)}
	l.writePodFiles(t, c.kubeconfig(), volumes)
	program := filepath.Join(root, "launcher")
	l.cmd = exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "/bin/sh", "-c", launchScript, root,
		program, "guest", "--root", root, "--network", string(pod.Slirp), "--emulate")
	l.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(root, "tmp"), "KUBECONFIG=" + filepath.Join(root, "kubeconfig"),
		"VMI_NAME=" + c.vmi.Name, "POD_NAMESPACE=" + c.vmi.Namespace, "POD_UID=" + podUID, "NODE_NAME=here"}
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.log
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		l.ended <- l.cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = l.cmd.Process.Kill() // and with it, all that it started
		<-done
		if t.Failed() {
			t.Logf("the launcher's log:\n%s", l.log.String())
		}
	})
	return l
}

// consoleText returns what the guest has written to its serial console.
func (l *launcher) consoleText() string { return guest.Console(l.out.String()) }

// writePodFiles creates the files of the pod.
func (l *launcher) writePodFiles(t *testing.T, kubeconfig string, volumes func(root string)) {
	t.Helper()
	if err := cluster.Build(t.Context(), "../..", l.root, "launcher"); err != nil {
		t.Fatal(err)
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"kubeconfig": kubeconfig, "passwd": string(passwd) + "qemu:x:107:107:QEMU:/:/usr/sbin/nologin\n"} {
		if err := os.WriteFile(filepath.Join(l.root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"tmp", pod.Private} {
		if err := os.MkdirAll(filepath.Join(l.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if volumes != nil {
		volumes(l.root)
	}
	if err := libvirt.Recall(probesKey, l.probeCache()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(l.root, 0o711); err != nil {
		t.Fatal(err)
	}
	own := []string{"-R", fmt.Sprintf("%d:%d", launcherUID, launcherUID), filepath.Join(l.root, "tmp"), filepath.Join(l.root, "var")}
	if out, err := exec.Command("chown", own...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := libvirt.Remember(probesKey, l.probeCache()); err != nil {
			t.Error(err)
		}
	})
}

// probesKey is the key of the cached capabilities of QEMU for this user.
const probesKey = "session-107"

func (l *launcher) probeCache() string {
	return filepath.Join(l.root, pod.Private, "cache", "libvirt", "qemu", "cache", "capabilities")
}

// waitForReport waits until is returns true for the status of the GuestPod. It fails if the launcher ends before.
func (c *fakeAPIServer) waitForReport(t *testing.T, l *launcher, what string, is func(v1alpha1.GuestPodStatus) bool) v1alpha1.GuestPodStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longLimit)
	defer cancel()
	for {
		pod, changed := c.currentPod()
		if is(pod.Status) {
			return pod.Status
		}
		select {
		case <-changed:
		case err := <-l.ended:
			l.ended <- err
			t.Fatalf("want %s; the launcher has ended: %v, with %+v", what, err, pod.Status.Domain)
		case <-ctx.Done():
			t.Fatalf("want %s; domain %+v, refusal %+v, running %+v", what, pod.Status.Domain, pod.Status.Refusal, pod.Status.Running)
		}
	}
}

// inState returns a function that reports whether the domain is in the state.
func inState(state v1alpha1.GuestDomainState) func(v1alpha1.GuestPodStatus) bool {
	return func(status v1alpha1.GuestPodStatus) bool { return status.Domain != nil && status.Domain.State == state }
}

// withGracePeriod sets the grace period of the VMI, in seconds, and returns the VMI.
func withGracePeriod(vmi *v1.VirtualMachineInstance, grace int64) *v1.VirtualMachineInstance {
	vmi.Spec.TerminationGracePeriodSeconds = &grace
	return vmi
}
