package libvirt

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/guest"
	"libvirt.org/go/libvirtxml"
)

// machine is a domain with two disks that are told apart by their PCI slots.
func machine(name, first, second string) string {
	disk := func(target, slot string) string {
		return `<disk type="block" device="disk"><driver name="qemu" type="raw"/><source dev="/dev/null"/>` +
			`<target dev="` + target + `" bus="virtio"/>` +
			`<address type="pci" domain="0x0000" bus="0x00" slot="` + slot + `" function="0x0"/></disk>`
	}
	return `<domain type="qemu"><name>` + name + `</name><memory unit="MiB">256</memory><vcpu>1</vcpu>` +
		`<os><type arch="x86_64" machine="pc-q35-7.2">hvm</type></os>` +
		`<devices>` + disk("vda", first) + disk("vdb", second) + `</devices></domain>`
}

// TestDefine shows that this libvirt judges addresses: a harness that takes everything proves nothing.
func TestDefine(t *testing.T) {
	t.Parallel()
	d := Start(t)
	out, err := d.Define(machine("legal", "0x05", "0x06"))
	if err != nil {
		t.Fatal(err)
	}
	var read libvirtxml.Domain
	if err := read.Unmarshal(out); err != nil {
		t.Fatal(err)
	}
	if len(read.Devices.Disks) != 2 || read.UUID == "" || len(read.Devices.Controllers) == 0 {
		t.Errorf("read back is\n%s\nwant two disks, and the UUID and controllers that libvirt adds", out)
	}
	if state, err := d.State("legal"); err != nil || state != "shut off" {
		t.Errorf("state is '%s' (%v), want 'shut off'", state, err)
	}
	_, err = d.Define(machine("doubled", "0x05", "0x05"))
	if err == nil || !strings.Contains(err.Error(), "0000:00:05.0") {
		t.Errorf("error is '%v', want the refusal of two disks on one address", err)
	}
	if _, err := d.State("doubled"); err == nil {
		t.Error("the refused domain exists")
	}
	if err := d.Undefine("legal"); err != nil {
		t.Error(err)
	}
}

// TestValidate: the schema refuses what libvirtd would silently drop.
func TestValidate(t *testing.T) {
	t.Parallel()
	legal := machine("legal", "0x05", "0x06")
	if err := Validate(legal); err != nil {
		t.Error(err)
	}
	err := Validate(strings.Replace(legal, "<devices>", "<gizmo/><devices>", 1))
	if err == nil {
		t.Error("a domain with an unknown element was accepted")
	}
}

// TestApart: daemons see only their own domains, and virsh reaches them by the URI.
func TestApart(t *testing.T) {
	t.Parallel()
	first, second := Start(t), Start(t)
	for _, d := range []*Daemon{first, second} {
		if _, err := d.Define(machine("same-name", "0x05", "0x06")); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Undefine("same-name"); err != nil {
		t.Fatal(err)
	}
	list := func(d *Daemon) string {
		out, err := exec.Command("virsh", "-c", d.URI, "list", "--all", "--name").CombinedOutput()
		if err != nil {
			t.Fatalf("virsh: %v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := list(first); got != "" {
		t.Errorf("the first daemon has domains '%s', want none", got)
	}
	if got := list(second); got != "same-name" {
		t.Errorf("the second daemon has domains '%s', want 'same-name'", got)
	}
}

// TestNothingStays kills a program that has started a daemon, which then cannot clean up, and waits
// until daemon and directory are gone all the same.
func TestNothingStays(t *testing.T) {
	if os.Getenv("KILN_TEST_HOLD") != "" {
		hold(t)
		return
	}
	t.Parallel()
	reportFile := filepath.Join(t.TempDir(), "socket")
	child := exec.Command(os.Args[0], "-test.run=^TestNothingStays$")
	child.Env = append(os.Environ(), "KILN_TEST_HOLD="+reportFile)
	var output bytes.Buffer
	child.Stdout, child.Stderr = &output, &output
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	var socket []byte
	eventually(t, "the child has a daemon", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("the child ended before it had a daemon: %v:\n%s", err, &output)
		default:
		}
		socket, _ = os.ReadFile(reportFile)
		return len(socket) > 0
	})
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	dir := filepath.Dir(filepath.Dir(filepath.Dir(string(socket))))
	eventually(t, "the directory is gone", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
	// Every process of the daemon's namespace has the directory on its command line or in its mounts.
	eventually(t, "no process is left", func() bool { return !mounted(t, dir) })
}

func hold(t *testing.T) {
	d := Start(t)
	// Renamed into place, so that the parent never reads half a path.
	path := os.Getenv("KILN_TEST_HOLD")
	if err := os.WriteFile(path+".new", []byte(d.Socket), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	select {}
}

// mounted reports whether any process has dir among its mounts: its namespace is then still alive.
func mounted(t *testing.T, dir string) bool {
	t.Helper()
	tables, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		// A process may end between the listing and the reading.
		text, _ := os.ReadFile(table)
		if strings.Contains(string(text), dir) {
			return true
		}
	}
	return false
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(guest.BootTimeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("it never came to this: %s", what)
}
