package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is this program, also after /proc was mounted anew.
const self = "/proc/self/exe"

// hiddenCommand starts this program again with the words of a hidden subcommand. It dies with the thread that starts it.
func hiddenCommand(flags uintptr, words ...string) *exec.Cmd {
	cmd := exec.Command(self, words...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: unix.SIGKILL, Setpgid: flags != 0}
	return cmd
}

// apart are the namespaces of a node.
const apart = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// listenerFD is the descriptor under which the children inherit the listener of the API server's forwarder.
const listenerFD = 3

// Init is process 1 of the node. It starts Inside, buries the orphans of the namespace, and ends with the status of Inside: then the
// kernel kills whatever runs there, and removes the mounts and interfaces with the last process.
func Init(words ...string) (status int, err error) {
	// What is mounted here must not appear outside, which systemd's machines would have it do.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 1, fmt.Errorf("making all mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, ""); err != nil {
		return 1, fmt.Errorf("mounting /proc: %w", err)
	}
	cmd := hiddenCommand(0, words...)
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	cmd.ExtraFiles = []*os.File{os.NewFile(listenerFD, "listener")}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	for {
		var ended unix.WaitStatus
		pid, err := unix.Wait4(-1, &ended, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 1, err
		}
		if pid == cmd.Process.Pid {
			return ended.ExitStatus(), nil
		}
	}
}

// covered are directories that kubelet, containerd and the CNI plugins write to whatever their configuration says.
var covered = []string{"/etc", "/var/lib", "/usr/libexec"}

// Hidden returns an error if a node cannot use a directory of the machine, because the node has its own directory at this path.
func Hidden(path string) error {
	for _, dir := range append([]string{"/run"}, covered...) {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return fmt.Errorf("'%s' cannot be used: what a node writes below %s goes away with it", path, dir)
		}
	}
	return nil
}

// mountFilesystems makes the mount namespace what a node needs. kubelet wants mounts to be shared, with which only this namespace remains.
func mountFilesystems() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("making all mounts shared: %w", err)
	}
	if err := unix.Mount("run", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	for _, dir := range covered {
		upper, work := filepath.Join("/run/over", dir, "upper"), filepath.Join("/run/over", dir, "work")
		if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
			return err
		}
		err := unix.Mount("over", dir, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work))
		if err != nil && !errors.Is(err, unix.ENOENT) { // nothing is there to be covered
			return fmt.Errorf("covering %s: %w", dir, err)
		}
	}
	return mountSysctls()
}

// mountKubelet mounts kubelet's folder where it is on most machines too, because DaemonSets look for it there: for seccomp profiles, sockets of device plugins
// and volumes of pods. Both places have the same mounts, whichever of them somebody mounts something at.
func (s Spec) mountKubelet() error {
	here, usual := s.pathInDir("kubelet"), "/var/lib/kubelet"
	if err := errors.Join(os.MkdirAll(here, 0o755), os.MkdirAll(usual, 0o755)); err != nil {
		return err
	}
	if err := unix.Mount(here, usual, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", usual, err)
	}
	return os.MkdirAll(filepath.Join(usual, "seccomp"), 0o755)
}

// mountSysctls: kubelet sets what is the machine's, not the namespace's, unless it reads there what it wants. So it reads a file of ours.
func mountSysctls() error {
	for name, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	} {
		file := filepath.Join("/run", "sysctl."+strings.ReplaceAll(name, "/", "."))
		err := errors.Join(os.WriteFile(file, []byte(value+"\n"), 0o644), unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""))
		if err != nil {
			return fmt.Errorf("covering the switch %s: %w", name, err)
		}
	}
	return errors.Join(os.WriteFile(forwarding, []byte("1"), 0o644), os.WriteFile(proxyARP, []byte("1"), 0o644))
}
