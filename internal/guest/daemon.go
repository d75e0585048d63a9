package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Daemon is the libvirt daemon of the pod in session mode: it has only the rights of its user, and all its files are below one folder. Guests continue to run
// while the daemon restarts, and the daemon finds them again.
type Daemon struct {
	// Program is the path of libvirtd.
	Program string
	// Folder contains all files of the daemon. Its path must be short, because sockets are below it.
	Folder string
	// HugePages is where huge pages may be mounted.
	HugePages string
	// Log receives the daemon's output.
	Log io.Writer
	// Prepare is called before the first start, if it is set. It may fill CacheHome. If it fails, the start is only slower.
	Prepare func() error
}

// Socket returns the path of the socket on which the daemon listens.
func (d *Daemon) Socket() string { return filepath.Join(d.Folder, "run", "libvirt", "libvirt-sock") }

// CacheHome returns the daemon's XDG_CACHE_HOME. libvirt caches QEMU's capabilities there.
func (d *Daemon) CacheHome() string { return filepath.Join(d.Folder, "cache") }

// environment returns the environment of the daemon and of the processes that it starts.
func (d *Daemon) environment() []string {
	kept := []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + d.Folder}
	for _, name := range []string{"run", "config", "cache", "data", "state"} {
		variable := map[string]string{"run": "XDG_RUNTIME_DIR"}[name]
		if variable == "" {
			variable = "XDG_" + strings.ToUpper(name) + "_HOME"
		}
		kept = append(kept, variable+"="+filepath.Join(d.Folder, name))
	}
	return kept
}

// configFiles returns the content of the configuration files by their paths below Folder. QEMU writes its logs itself, because the pod has no virtlogd. The
// security driver is off, because an unprivileged user cannot set it up. Only a privileged libvirt looks for huge pages itself. swtpm signs with a certificate
// authority that exists only in the pod.
func (d *Daemon) configFiles() map[string]string {
	authority, config := filepath.Join(d.Folder, "data", "swtpm-localca"), filepath.Join(d.Folder, "config")
	hugePages := ""
	if isHugePages(d.HugePages) { // of another folder libvirt says that it is no hugetlbfs mount, and does not start
		hugePages = fmt.Sprintf("hugetlbfs_mount = %q\n", d.HugePages)
	}
	return map[string]string{
		"config/libvirt/qemu.conf":     "stdio_handler = \"file\"\nsecurity_driver = \"none\"\n" + hugePages,
		"config/libvirt/libvirtd.conf": "log_outputs = \"3:stderr\"\n",
		"config/swtpm_setup.conf": "create_certs_tool = swtpm_localca\ncreate_certs_tool_config = " + filepath.Join(config, "swtpm-localca.conf") +
			"\ncreate_certs_tool_options = " + filepath.Join(config, "swtpm-localca.options") + "\nactive_pcr_banks = sha256\n",
		"config/swtpm-localca.conf": "statedir = " + authority + "\nsigningkey = " + filepath.Join(authority, "signkey.pem") +
			"\nissuercert = " + filepath.Join(authority, "issuercert.pem") + "\ncertserial = " + filepath.Join(authority, "certserial") + "\n",
		"config/swtpm-localca.options": "--platform-manufacturer Kiln\n--platform-version 1\n--platform-model Kiln\n",
	}
}

// isHugePages reports whether a file system of huge pages is mounted on a folder.
func isHugePages(folder string) bool {
	var system unix.Statfs_t
	return folder != "" && unix.Statfs(folder, &system) == nil &&
		uint32(system.Type) == unix.HUGETLBFS_MAGIC //nolint:gosec // the type differs by architecture, and magic numbers have 32 bits
}

// writeConfig creates the daemon's folders and configuration files.
func (d *Daemon) writeConfig() error {
	for _, name := range []string{"run", "config/libvirt", "cache", "data/swtpm-localca", "state"} {
		if err := os.MkdirAll(filepath.Join(d.Folder, name), 0o700); err != nil {
			return err
		}
	}
	for name, content := range d.configFiles() {
		if err := os.WriteFile(filepath.Join(d.Folder, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// minStableRun is the time that a daemon must run to reset the pause before its restart.
const minStableRun = time.Minute

// keepRunning restarts the daemon whenever it ends, until ctx ends. Then it stops the daemon.
func (d *Daemon) keepRunning(ctx context.Context) {
	if d.Prepare != nil {
		if err := d.Prepare(); err != nil {
			ctrl.LoggerFrom(ctx).Info("libvirt starts without the prepared cache", "reason", err.Error())
		}
	}
	delay := newDaemonBackoff()
	for ctx.Err() == nil {
		begun := time.Now()
		err := d.runOnce(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(begun) > minStableRun {
			delay = newDaemonBackoff()
		}
		pause := delay.Step()
		ctrl.LoggerFrom(ctx).Info("libvirt has ended and is started again", "reason", fmt.Sprint(err), "in", pause.String())
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// RunWhile runs the daemon as long as work runs, and not again if it ends. The daemon has ended when RunWhile returns.
func (d *Daemon) RunWhile(ctx context.Context, work func(context.Context) error) error {
	if err := d.writeConfig(); err != nil {
		return fmt.Errorf("libvirt's folders cannot be made: %w", err)
	}
	if d.Prepare != nil {
		if err := d.Prepare(); err != nil {
			ctrl.LoggerFrom(ctx).Info("libvirt starts without the prepared cache", "reason", err.Error())
		}
	}
	life, end := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end(fmt.Errorf("libvirt has ended: %v", d.runOnce(life)))
	}()
	defer func() { end(nil); <-ended }()
	err := d.awaitSocket(life)
	if err == nil {
		err = work(life)
	}
	if err != nil && life.Err() != nil {
		return context.Cause(life)
	}
	return err
}

func newDaemonBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 100, Cap: 30 * time.Second}
}

// runOnce runs the daemon until it ends. When ctx ends, the daemon gets SIGTERM, and is killed 5 seconds later.
func (d *Daemon) runOnce(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, d.Program)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = d.environment(), d.Folder, d.Log, d.Log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	// The daemon has its own process group, because a signal to the launcher's group must not end it: it must live as long as the guest.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Run()
}

// awaitSocket waits until the daemon accepts connections. The error contains ctx.Err() and the last failure to connect.
func (d *Daemon) awaitSocket(ctx context.Context) error {
	const tick = 20 * time.Millisecond
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", d.Socket())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(tick):
		}
	}
}
