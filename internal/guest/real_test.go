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
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
)

// These tests run the launcher as process 1 of namespaces of its own, as the account of a guest's pod, without rights, with a real libvirtd.

// account is that of the image.
const account = 107

// generous is for machines that do much else.
const generous = 5 * time.Minute

// launcher is one that runs.
type launcher struct {
	cmd  *exec.Cmd
	root string
	out  text
	log  text
	// ended has the result of the process, once.
	ended chan error
}

// text is what a process writes.
type text struct {
	mutex sync.Mutex
	bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.Buffer.Write(p)
}

func (t *text) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.Buffer.String()
}

// envelope gives the account a name, which libvirt asks for, and becomes the launcher.
const envelope = `set -e
mount --bind "$0/passwd" /etc/passwd
exec setpriv --reuid 107 --regid 107 --clear-groups --no-new-privs --bounding-set -all "$@"`

// launch starts the launcher for a VMI of a cluster. volumes fills the folder in the place of '/'.
func launch(t *testing.T, c *api, volumes func(root string)) *launcher {
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
	l.lay(t, c.kubeconfig(), volumes)
	program := filepath.Join(root, "launcher")
	l.cmd = exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "/bin/sh", "-c", envelope, root,
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

// console returns what the guest has written to its serial console.
func (l *launcher) console() string { return guest.Console(l.out.String()) }

// lay makes the files of the pod.
func (l *launcher) lay(t *testing.T, kubeconfig string, volumes func(root string)) {
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
	if err := libvirt.Recall(probesKey, l.probes()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(l.root, 0o711); err != nil {
		t.Fatal(err)
	}
	own := []string{"-R", fmt.Sprintf("%d:%d", account, account), filepath.Join(l.root, "tmp"), filepath.Join(l.root, "var")}
	if out, err := exec.Command("chown", own...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := libvirt.Remember(probesKey, l.probes()); err != nil {
			t.Error(err)
		}
	})
}

// probesKey names what libvirt has learned of QEMU as this account.
const probesKey = "session-107"

func (l *launcher) probes() string {
	return filepath.Join(l.root, pod.Private, "cache", "libvirt", "qemu", "cache", "capabilities")
}

// reports waits until the status of the GuestPod is as it should be.
func (c *api) reports(t *testing.T, l *launcher, what string, is func(v1alpha1.GuestPodStatus) bool) v1alpha1.GuestPodStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	for {
		pod, changed := c.now()
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

// in reports whether a domain is in a state.
func in(state v1alpha1.GuestDomainState) func(v1alpha1.GuestPodStatus) bool {
	return func(status v1alpha1.GuestPodStatus) bool { return status.Domain != nil && status.Domain.State == state }
}

func vmiOf(vmi *v1.VirtualMachineInstance, grace int64) *v1.VirtualMachineInstance {
	vmi.Spec.TerminationGracePeriodSeconds = &grace
	return vmi
}
