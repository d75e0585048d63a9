package launcher

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/digitalocean/go-libvirt"
)

//go:embed confined.sh
var script string

// account is the number of User.
const account = 107

// namespaces are the flags of unshare for the namespaces of confined.sh.
var namespaces = []string{"--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child"}

// checkPrivileges returns why this process cannot run programs as in a pod; nil if it can.
func checkPrivileges(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root")
	}
	out, err := exec.CommandContext(ctx, "unshare", slices.Concat(namespaces, []string{"mount", "-t", "tmpfs", "tmpfs", "/mnt"})...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("this needs namespaces and mounts: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// confinedCommand returns a command that runs a program of an unpacked image as in a pod. The folder state is its /tmp, and contains all folders of XDG.
func confinedCommand(ctx context.Context, root, state string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "unshare", slices.Concat(namespaces, []string{"sh", "-c", script, "confined", root, state}, args)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "XDG_RUNTIME_DIR=/tmp/run", "XDG_CACHE_HOME=/tmp/cache",
		"XDG_CONFIG_HOME=/tmp/config", "XDG_DATA_HOME=/tmp/data", "XDG_STATE_HOME=/tmp/state"}
	// The namespaces end with the shell in them, also when this process is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// makeStateFolder creates a folder for the state of confined programs. Its path is short, because paths of sockets have at most 107 bytes.
func makeStateFolder() (string, error) {
	state, err := os.MkdirTemp("", "kiln-pod-")
	if err != nil {
		return "", err
	}
	return state, errors.Join(os.Chown(state, account, account), os.Chmod(state, 0o700))
}

// session is a libvirtd of an unpacked image, as in a pod.
type session struct {
	state string
	cmd   *exec.Cmd
	log   bytes.Buffer
	ended chan struct{}
}

// startSession starts libvirtd, and waits until it answers.
func startSession(ctx context.Context, root, state string) (*session, error) {
	s := &session{state: state, cmd: confinedCommand(ctx, root, state, "/usr/sbin/libvirtd"), ended: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // the log says more than the status
		close(s.ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := s.withConnection(func(*libvirt.Libvirt) error { return nil })
		if err == nil {
			return s, nil
		}
		select {
		case <-ctx.Done():
			s.kill()
			return nil, fmt.Errorf("libvirtd of the image does not answer: %w: %s", err, s.log.String())
		case <-s.ended:
			return nil, fmt.Errorf("libvirtd of the image has ended: %s", s.log.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// withConnection calls work with a connection to libvirtd.
func (s *session) withConnection(work func(*libvirt.Libvirt) error) error {
	socket := filepath.Join(s.state, "run", "libvirt", "libvirt-sock")
	client, err := libvirt.ConnectToURI(&url.URL{Scheme: "qemu+unix", Path: "/session", RawQuery: url.Values{"socket": {socket}}.Encode()})
	if err != nil {
		return err
	}
	return errors.Join(work(client), client.Disconnect())
}

// domainCapabilities returns the XML of the domain capabilities. libvirtd probes QEMU for it, unless its cache is valid.
func (s *session) domainCapabilities() (xml string, err error) {
	err = s.withConnection(func(client *libvirt.Libvirt) error {
		xml, err = client.ConnectGetDomainCapabilities(nil, nil, nil, nil, 0)
		return err
	})
	return xml, err
}

// kill kills libvirtd and its guests. Then the log is complete.
func (s *session) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}
