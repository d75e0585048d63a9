// Package cgroup2 runs nodes of the tests' clusters on cgroups of version 2 alone. The first node is in namespaces of this machine, whatever version this
// machine has. The second one is a virtual machine without KVM: QEMU with Debian's kernel, the files of this machine by virtiofsd, and a network card that is a
// port of the first node's bridge. So kubelet, containerd, runc and the pods of the second node have a kernel of their own.
package cgroup2

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/node"
)

//go:embed init.sh
var initScript []byte

//go:embed machine.sh
var machineScript []byte

//go:embed share.sh
var shareScript string

// virtiofsd is the program in C, of Debian's package qemu-system-common up to Debian 12.
const virtiofsd = "/usr/lib/qemu/virtiofsd"

// modules are the modules of the kernel that the machine needs before it has a root file system, and its network card.
var modules = []string{"virtio_pci", "virtio_blk", "virtiofs", "overlay", "virtio_net"}

// startTimeout bounds the start of a machine, which takes a minute on a machine with two cores that has nothing else to do.
const startTimeout = 20 * time.Minute

// incapable returns why this machine cannot run such a node; nil if it can.
func incapable() error {
	if err := node.Incapable(); err != nil {
		return err
	}
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("the machine is emulated only on amd64, not on %s", runtime.GOARCH)
	}
	for _, program := range []string{"qemu-system-x86_64", virtiofsd, "mke2fs", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("the machine has a tap device: %w", err)
	}
	return nil
}

// machine is a virtual machine that runs a node.
type machine struct {
	node   *node.Prepared
	first  *node.Node
	memory int
	dir    string
	// files is virtiofsd, and qemu the machine.
	files, qemu process
	stdin       io.Writer
	console     console
}

// startMachine starts a machine that runs a second node, with an amount of memory in MiB and images of archives, and waits until pods can run there.
func startMachine(ctx context.Context, first *node.Node, name string, memory int, archives []string) (m *machine, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	m = &machine{first: first, memory: memory, console: console{wrote: make(chan struct{}, 1)}}
	if m.node, err = first.Prepare(ctx, name); err != nil {
		return nil, err
	}
	if m.dir, err = cluster.Dir("kiln-cgroup2"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("the machine of node '%s': %w\n%s", name, err, m.console.text()), m.close())
		}
	}()
	boots, err := guest.BuildMachine(m.dir, initScript, modules...)
	if err != nil {
		return nil, err
	}
	if err := m.makeDisk(ctx, archives); err != nil {
		return nil, err
	}
	if err := m.shareFiles(ctx, boots); err != nil {
		return nil, err
	}
	if err := m.boot(ctx, boots); err != nil {
		return nil, err
	}
	return m, m.await(ctx, "KILN-READY")
}

// shareFiles starts virtiofsd in a mount namespace, which has the files of the machine in one folder.
func (m *machine) shareFiles(ctx context.Context, boots guest.Machine) error {
	share, script := filepath.Join(m.dir, "share"), filepath.Join(m.dir, "machine.sh")
	if err := errors.Join(os.Mkdir(share, 0o700), os.WriteFile(script, machineScript, 0o600)); err != nil {
		return err
	}
	args := append([]string{"--mount", "sh", "-c", shareScript, "share.sh",
		share, m.socket(), m.node.Supervisor, script, boots.Busybox, boots.Modules, boots.Release}, m.node.Folders...)
	cmd := exec.Command("unshare", args...)
	cmd.Stderr = &m.console
	m.files = startAndWait(cmd)
	if m.files.failed != nil {
		return m.files.failed
	}
	for _, err := os.Stat(m.socket()); err != nil; _, err = os.Stat(m.socket()) {
		select {
		case <-m.files.ended:
			return errors.New("virtiofsd has ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (m *machine) socket() string { return filepath.Join(m.dir, "files.sock") }

// boot starts QEMU with a port of the first node's bridge.
func (m *machine) boot(ctx context.Context, boots guest.Machine) error {
	const port = "machine"
	network := fmt.Sprintf("--net=/proc/%d/ns/net", m.first.PID)
	err := run(ctx, "nsenter", network, "sh", "-ec", "ip tuntap add dev "+port+" mode tap; ip link set "+port+" master lan up")
	if err != nil {
		return err
	}
	cmd := exec.Command("nsenter", network, "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max", "-smp", "2",
		"-m", fmt.Sprint(m.memory), "-object", fmt.Sprintf("memory-backend-memfd,id=memory,size=%dM,share=on", m.memory), "-numa", "node,memdev=memory",
		"-kernel", boots.Kernel, "-initrd", boots.Initramfs, "-append", "console=ttyS0 quiet loglevel=4 panic=-1 no_timer_check", "-no-reboot",
		"-display", "none", "-monitor", "none", "-serial", "stdio",
		"-chardev", "socket,id=files,path="+m.socket(), "-device", "vhost-user-fs-pci,chardev=files,tag=host,queue-size=1024",
		"-drive", "file="+m.disk()+",format=raw,if=virtio,cache=unsafe",
		"-netdev", "tap,id=lan,ifname="+port+",script=no,downscript=no", "-device", "virtio-net-pci,netdev=lan")
	cmd.Stdout, cmd.Stderr = &m.console, &m.console
	if m.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	m.qemu = startAndWait(cmd)
	return m.qemu.failed
}

// await waits until the machine has written a word.
func (m *machine) await(ctx context.Context, word string) error {
	for {
		text := m.console.text()
		if i := strings.Index(text, "KILN-FAILED"); i >= 0 {
			return errors.New(strings.TrimSpace(strings.SplitN(text[i:], "\n", 2)[0]))
		}
		if strings.Contains(text, word) {
			return nil
		}
		select {
		case <-m.console.wrote:
		case <-m.qemu.ended:
			if strings.Contains(m.console.text(), word) {
				return nil
			}
			return fmt.Errorf("QEMU has ended before the machine wrote %s", word)
		case <-ctx.Done():
			return fmt.Errorf("the machine has not written %s: %w", word, context.Cause(ctx))
		}
	}
}

// say gives the machine a line, and waits until it has answered with a word.
func (m *machine) say(ctx context.Context, line, word string) error {
	if _, err := fmt.Fprintln(m.stdin, line); err != nil {
		return err
	}
	return m.await(ctx, word)
}

// logs returns the console, with the ends of the logs of the node's programs.
func (m *machine) logs() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := m.say(ctx, "logs", "KILN-LOGGED")
	return fmt.Sprintf("%s\n%v\n", m.console.text(), err)
}

// list returns the cgroups and processes of the machine, a line each.
func (m *machine) list(ctx context.Context) ([]string, error) {
	if err := m.say(ctx, "list", "KILN-LISTED"); err != nil {
		return nil, err
	}
	return linesAfter(m.console.text(), "KILN-LEFT "), nil
}

// end ends the node, and then the machine. It returns the status of the node's process, and the cgroups and processes that are left then.
func (m *machine) end(ctx context.Context) (status string, left []string, err error) {
	if err := m.say(ctx, "end", "KILN-ENDED"); err != nil {
		return "", nil, err
	}
	_, text, _ := strings.Cut(m.console.text(), "KILN-STATUS ")
	status, _, _ = strings.Cut(text, "\n")
	select {
	case <-m.qemu.ended:
	case <-ctx.Done():
		err = fmt.Errorf("QEMU runs on: %w", context.Cause(ctx))
	}
	return status, linesAfter(text, "KILN-LEFT "), err
}

// linesAfter returns the rests of lines that begin with a word.
func linesAfter(text, word string) (rests []string) {
	for line := range strings.Lines(text) {
		if rest, is := strings.CutPrefix(line, word); is {
			rests = append(rests, strings.TrimSpace(rest))
		}
	}
	return rests
}

// close ends what is left of the machine.
func (m *machine) close() error {
	for _, p := range []process{m.qemu, m.files} {
		if p.cmd != nil && p.failed == nil {
			_ = p.cmd.Process.Kill() // fails if it has ended
			<-p.ended
		}
	}
	return os.RemoveAll(m.dir)
}

// process is a program that ends with this process, however this process ends.
type process struct {
	cmd    *exec.Cmd
	failed error // it could not be started
	ended  chan struct{}
}

// startAndWait starts a program on a thread that exists as long as the program, because the parent death signal is sent when the thread ends.
func startAndWait(cmd *exec.Cmd) process {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	p := process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is on its standard error
		}
		close(p.ended)
	}()
	p.failed = <-started
	return p
}

// console is what the machine has written.
type console struct {
	mutex sync.Mutex
	all   strings.Builder
	wrote chan struct{} // something, since it was read from
}

func (c *console) Write(text []byte) (int, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	select {
	case c.wrote <- struct{}{}:
	default:
	}
	return c.all.Write(text)
}

func (c *console) text() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return strings.ReplaceAll(c.all.String(), "\r\n", "\n")
}
