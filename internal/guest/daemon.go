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

	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Daemon is the libvirt daemon of the pod, in session mode: it has the rights of its user, and every file of its own below one folder. Guests go on while
// it is restarted, and it finds them again.
type Daemon struct {
	// Program is the path of libvirtd.
	Program string
	// Folder has all files of the daemon. Its path is short: sockets are below it.
	Folder string
	// Log gets what the daemon writes.
	Log io.Writer
	// Prepare is called before the first start, if it is set. It may fill CacheHome. Its error only makes the start slower.
	Prepare func() error
}

// Socket is where the daemon listens.
func (d *Daemon) Socket() string { return filepath.Join(d.Folder, "run", "libvirt", "libvirt-sock") }

// CacheHome is the daemon's XDG_CACHE_HOME. libvirt keeps there what it has learned of QEMU.
func (d *Daemon) CacheHome() string { return filepath.Join(d.Folder, "cache") }

// environment is that of the daemon and of what it starts.
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

// files are the configurations, below the folder. QEMU writes its logs itself, so that no virtlogd is needed. There is neither a security driver nor a
// namespace of devices that a user without rights could set up. swtpm's own certificate authority is of the pod.
func (d *Daemon) files() map[string]string {
	authority, config := filepath.Join(d.Folder, "data", "swtpm-localca"), filepath.Join(d.Folder, "config")
	return map[string]string{
		"config/libvirt/qemu.conf":     "stdio_handler = \"file\"\nsecurity_driver = \"none\"\n",
		"config/libvirt/libvirtd.conf": "log_outputs = \"3:stderr\"\n",
		"config/swtpm_setup.conf": "create_certs_tool = swtpm_localca\ncreate_certs_tool_config = " + filepath.Join(config, "swtpm-localca.conf") +
			"\ncreate_certs_tool_options = " + filepath.Join(config, "swtpm-localca.options") + "\nactive_pcr_banks = sha256\n",
		"config/swtpm-localca.conf": "statedir = " + authority + "\nsigningkey = " + filepath.Join(authority, "signkey.pem") +
			"\nissuercert = " + filepath.Join(authority, "issuercert.pem") + "\ncertserial = " + filepath.Join(authority, "certserial") + "\n",
		"config/swtpm-localca.options": "--platform-manufacturer Kiln\n--platform-version 1\n--platform-model Kiln\n",
	}
}

// lay makes the folders and configurations.
func (d *Daemon) lay() error {
	for _, name := range []string{"run", "config/libvirt", "cache", "data/swtpm-localca", "state"} {
		if err := os.MkdirAll(filepath.Join(d.Folder, name), 0o700); err != nil {
			return err
		}
	}
	for name, content := range d.files() {
		if err := os.WriteFile(filepath.Join(d.Folder, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// lastingRun is how long a daemon must run for its end to count as the first one.
const lastingRun = time.Minute

// run keeps the daemon running until ctx ends, and ends it then.
func (d *Daemon) run(ctx context.Context) {
	if d.Prepare != nil {
		if err := d.Prepare(); err != nil {
			ctrl.LoggerFrom(ctx).Info("libvirt starts without the prepared cache", "reason", err.Error())
		}
	}
	delay := daemonDelays()
	for ctx.Err() == nil {
		begun := time.Now()
		err := d.once(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(begun) > lastingRun {
			delay = daemonDelays()
		}
		pause := delay.Step()
		ctrl.LoggerFrom(ctx).Info("libvirt has ended and is started again", "reason", fmt.Sprint(err), "in", pause.String())
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func daemonDelays() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 100, Cap: 30 * time.Second}
}

// once runs the daemon until it ends, or until ctx ends: then it has some seconds to end by itself.
func (d *Daemon) once(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, d.Program)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = d.environment(), d.Folder, d.Log, d.Log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	// A group of its own: a signal for the launcher's group is not for the daemon, which must live as long as the guest.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Run()
}

// ready waits until the daemon accepts connections. The error is that of ctx.
func (d *Daemon) ready(ctx context.Context) error {
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
