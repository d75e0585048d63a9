package machines

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	"libvirt.org/go/libvirtxml"
)

// unstarted are the machines of amd64 that an emulator cannot start, with what it would need.
var unstarted = map[string]string{
	"numa-passthrough":   "needs host: huge pages, and 24 CPUs in two cells",
	"dedicated-realtime": "needs host: huge pages, and CPUs for real time",
	"sev":                exceptions["amd64/sev"].needs,
	"snp":                exceptions["amd64/snp"].needs,
	"tdx":                exceptions["amd64/tdx"].needs,
	"sriov":              "needs host: a function of a network card",
	"vgpu":               "needs host: mediated devices",
	"usb":                "needs host: a USB device",
}

// TestStarted starts the machines of amd64 on this machine, as later boots of what first booted on host a: with the digest of their
// golden. QEMU, unlike libvirt's define, checks that each device fits where it is put.
func TestStarted(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	for _, machine := range machines {
		c := rendered(t, "amd64", machine)
		if len(c.errs) > 0 {
			continue
		}
		t.Run(machine, func(t *testing.T) {
			if why := unstarted[machine]; why != "" {
				t.Log(why)
				return
			}
			start(t, d, c)
			t.Log("started")
		})
	}
}

func start(t *testing.T, d *libvirt.Daemon, c cell) {
	t.Helper()
	host := backend.Assumed("amd64")
	host.VirtTypes = []string{"qemu"}
	here, errs := render.Domain(render.Machine{VMI: c.vmi, Defaults: cluster(t).Frontend, Frozen: &c.first.Record, Host: host, Bindings: bound(t, c)})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	if here.Record.Digest != c.first.Record.Digest {
		t.Fatalf("the guest sees another machine: %q", abi.Changes(c.first.Frontend, here.Frontend))
	}
	dom := libvirt.Emulated(here.Documents.Domain)
	// What the host's CPU has, an emulated one has not: CPU, enlightenments and the timer with them need KVM.
	dom.CPU = &libvirtxml.DomainCPU{Mode: "custom", Model: &libvirtxml.DomainCPUModel{Value: "qemu64"}, Topology: dom.CPU.Topology, Numa: dom.CPU.Numa}
	features := *dom.Features
	features.HyperV, features.KVM = nil, nil
	clock := *dom.Clock
	clock.Timer = nil
	dom.Features, dom.Clock = &features, &clock
	xml, err := dom.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Define(xml); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Undefine(dom.Name); err != nil {
			t.Error(err)
		}
	}()
	startPaused(t, d, dom.Name)
	active, err := d.ActiveXML(dom.Name)
	if err == nil {
		err = d.Destroy(dom.Name)
	}
	if err != nil {
		t.Fatal(err)
	}
	var running libvirtxml.Domain
	if err := running.Unmarshal(active); err != nil {
		t.Fatal(err)
	}
	running.CPU, dom.CPU = nil, nil // expanded at the start
	if changes := abi.Changes(dom, &running); len(changes) > 0 {
		t.Errorf("the running guest has other hardware than was rendered: %q", changes)
	}
}

// bound are bindings that exist on this machine: images, sockets, and QEMU's own network in the place of bridges.
func bound(t *testing.T, c cell) backend.Bindings {
	t.Helper()
	// Not t.TempDir: with the name of the test in it, the path is too long for a socket (107 bytes).
	dir, err := os.MkdirTemp("", "kiln-machines-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := backend.AssumedBindings(c.vmi)
	for name, volume := range b.Volumes {
		volume.Path, volume.NoDirectIO = filepath.Join(dir, filepath.Base(volume.Path)), true // a temporary folder may be in memory
		volume.Backing = ""
		image(t, volume)
		b.Volumes[name] = volume
	}
	for name, nic := range b.NICs {
		if nic.Kind == "bridge" {
			b.NICs[name] = backend.NIC{Kind: "user"}
		}
	}
	for name := range b.Filesystems {
		b.Filesystems[name] = virtiofsd(t, dir)
	}
	b.NVRAM, b.VNC, b.Serial = filepath.Join(dir, "nvram.fd"), filepath.Join(dir, "vnc.sock"), filepath.Join(dir, "serial.sock")
	return b
}

func image(t *testing.T, volume backend.Volume) {
	t.Helper()
	if out, err := exec.Command("qemu-img", "create", "-f", volume.Format, volume.Path, "64M").CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v: %s", err, out)
	}
}

// virtiofsd serves a folder on a socket and ends with the test.
func virtiofsd(t *testing.T, dir string) string {
	t.Helper()
	program := ""
	for _, path := range []string{"/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd"} {
		if _, err := os.Stat(path); err == nil {
			program = path
		}
	}
	if program == "" {
		t.Fatal("no virtiofsd: install package 'qemu-system-common' or 'virtiofsd'")
	}
	socket := filepath.Join(dir, "fs.sock")
	daemon := exec.Command(program, "--socket-path="+socket, "-o", "source="+dir, "-f")
	output, err := daemon.StderrPipe()
	if err == nil {
		err = daemon.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Kill() // it may have ended with its guest
		_ = daemon.Wait()
	})
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "aiting for vhost-user socket connection") {
			return socket
		}
	}
	t.Fatal("virtiofsd has ended")
	return ""
}

// startPaused keeps guests that find nothing to boot from ending before they are looked at.
func startPaused(t *testing.T, d *libvirt.Daemon, name string) {
	t.Helper()
	client, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect()
	domain, err := client.DomainLookupByName(name)
	if err == nil {
		_, err = client.DomainCreateWithFlags(domain, uint32(rpc.DomainStartPaused))
	}
	if err != nil {
		t.Fatal(err)
	}
}
