// Package libvirt starts a real libvirtd for tests, apart from the one that the machine may run.
//
// The daemon is the distribution's, run as system daemon (qemu:///system) in mount and process
// namespaces of its own: its configuration, state, logs and sockets lie in one temporary directory,
// any number run side by side, and with the starting process ends the daemon with all its guests,
// however that happens. The network and the rest of the file system are the machine's: paths in
// domains mean the same inside and outside. It needs root: in a user namespace libvirt fails to set the
// groups of QEMU.
package libvirt

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	rpc "github.com/digitalocean/go-libvirt"
)

var (
	//go:embed private.sh
	script []byte
	//go:embed libvirtd.conf
	daemonConf []byte
	//go:embed qemu.conf
	qemuConf []byte
	//go:embed qemu_distribution.conf
	distributionConf []byte
)

// startTimeout bounds the wait for the socket, which takes a fifth of a second on an idle machine.
const startTimeout = 2 * time.Minute

// Daemon is one running private libvirtd.
type Daemon struct {
	// URI is what virsh -c and go-libvirt's ConnectToURI take.
	URI string
	// Socket is the path of the Unix socket.
	Socket string

	dir     string
	kept    string // for later daemons
	process *exec.Cmd
	hold    io.Closer // closing it ends the daemon
	ended   chan struct{}
}

// Start runs a daemon for the length of a test. A tool that is missing fails the test and is named
// with its Debian package. When the test fails, the daemon's log becomes part of its output.
func Start(t testing.TB) *Daemon {
	t.Helper()
	return startForTest(t, qemuConf)
}

// StartUnprivileged is Start, but QEMU and swtpm run as users of their own, as distributions have it. Those must be able to enter
// what tests give them: t.TempDir is closed to them.
func StartUnprivileged(t testing.TB) *Daemon {
	t.Helper()
	return startForTest(t, distributionConf)
}

func startForTest(t testing.TB, conf []byte) *Daemon {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	d, err := startDaemon(ctx, conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of libvirtd:\n%s", d.Log())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Run starts a daemon outside of tests and returns when it answers, or with an error when ctx is done
// before. It runs until Close, or until this process ends.
func Run(ctx context.Context) (*Daemon, error) { return startDaemon(ctx, qemuConf) }

func startDaemon(ctx context.Context, conf []byte) (*Daemon, error) {
	if err := Missing(); err != nil {
		return nil, err
	}
	// Not t.TempDir: with the name of a long test in it, the path is too long for a socket (107 bytes).
	dir, err := os.MkdirTemp("", "kiln-libvirt-")
	if err != nil {
		return nil, err
	}
	d := &Daemon{dir: dir, Socket: filepath.Join(dir, "run", "libvirt", "libvirt-sock"), ended: make(chan struct{}), kept: probesFolder(conf)}
	d.URI = "qemu+unix:///system?" + url.Values{"socket": {d.Socket}}.Encode()
	if err := d.layDirectories(conf); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := d.launchProcess(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := d.awaitAnswer(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("libvirtd does not answer: %w:\n%s", err, d.Log()), d.Close())
	}
	return d, nil
}

// layDirectories makes the directories that private.sh puts in the place of libvirt's.
func (d *Daemon) layDirectories(conf []byte) error {
	for _, name := range []string{"etc", "lib", "cache", "log", "run/libvirt", "localca"} {
		if err := os.MkdirAll(filepath.Join(d.dir, name), 0o755); err != nil {
			return err
		}
	}
	files := map[string][]byte{
		"etc/libvirtd.conf": daemonConf, "etc/qemu.conf": append(slices.Clone(conf), displayPorts(d.dir)...), "private.sh": script,
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(d.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return d.recallProbes()
}

// displayPorts gives a daemon 64 ports for the displays of its guests, by the random name of its folder. libvirt looks for a free port and QEMU binds it
// later: of two daemons with the same ports, one would lose.
func displayPorts(dir string) string {
	const first, each, last = 5900, 64, 32767 // from 32768 on, the kernel gives ports to clients
	name := fnv.New32a()
	_, _ = name.Write([]byte(dir)) // never fails
	low := first + each*int(name.Sum32()%((last-first)/each))
	return fmt.Sprintf("# Of 419 ranges, one that another daemon hardly has.\nremote_display_port_min = %d\nremote_display_port_max = %d\n", low, low+each-1)
}

func (d *Daemon) launchProcess() error {
	d.process = exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"--", "/bin/sh", filepath.Join(d.dir, "private.sh"), d.dir)
	// A process group of its own: Ctrl-C is for the starter, who ends guests before their libvirt.
	d.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(d.dir, "libvirtd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	d.process.Stdout, d.process.Stderr = log, log
	if d.hold, err = d.process.StdinPipe(); err != nil {
		return err
	}
	if err := d.process.Start(); err != nil {
		return err
	}
	go func() {
		// The status says nothing: the daemon is ended from here, or its log tells why it ended.
		_ = d.process.Wait()
		close(d.ended)
	}()
	return nil
}

// awaitAnswer returns once a client was served.
func (d *Daemon) awaitAnswer(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		client, err := d.Connect()
		if err == nil {
			return client.Disconnect()
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-d.ended:
			return errors.New("it has ended")
		case <-tick.C:
		}
	}
}

// Connect opens a connection of the pure-Go client; the caller disconnects it.
func (d *Daemon) Connect() (*rpc.Libvirt, error) {
	uri, err := url.Parse(d.URI)
	if err != nil {
		return nil, err
	}
	return rpc.ConnectToURI(uri)
}

// Log returns what the daemon has written so far; a log that cannot be read says so instead.
func (d *Daemon) Log() string {
	text, err := os.ReadFile(filepath.Join(d.dir, "libvirtd.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TPMStates returns the folder in which the daemon keeps the states of TPMs, as a path outside of its namespaces.
func (d *Daemon) TPMStates() string { return filepath.Join(d.dir, "lib", "swtpm") }

// Close ends the daemon and its guests, waits until they are gone and removes their directory. A second
// call does nothing.
func (d *Daemon) Close() error {
	err := d.rememberProbes() // private.sh removes the directory
	_ = d.hold.Close()
	<-d.ended
	return errors.Join(err, os.RemoveAll(d.dir))
}
