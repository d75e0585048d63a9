package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/libvirt"
)

// onMachine is a VM of no volumes that runs on one machine, with changes. No guest system boots in it.
func onMachine(name string, m machine, changes ...string) string {
	return vm(name, append([]string{"runStrategy: Halted", "runStrategy: Always", "nodeSelector: {machine: none}",
		"terminationGracePeriodSeconds: 0\n      nodeSelector: {machine: " + m.name + "}"}, changes...)...)
}

// says waits until a jsonpath of an object prints a text.
func (s space) says(kind, name, path, want string) {
	s.Helper()
	var last answer
	if !s.late(func() bool {
		last = s.read(kind, name, path)
		return last.err == nil && strings.Contains(last.stdout, want)
	}) {
		s.Fatalf("%s '%s' does not say '%s' at %s but '%s' %s; its status is %s", kind, name, want, path, last.stdout, last.stderr,
			s.read(kind, name, "{.status}").stdout)
	}
}

// late is soon for what takes a new libvirt, a grace period or a retry besides.
func (s space) late(done func() bool) bool {
	for range 4 {
		if s.soon(done) {
			return true
		}
	}
	return false
}

const (
	phase        = "{.status.phase}"
	ready        = `{range .status.conditions[?(@.type=="Ready")]}{.status} {.reason} {.message}{end}`
	paused       = `{range .status.conditions[?(@.type=="Paused")]}{.status} {.reason}{end}`
	synchronized = `{range .status.conditions[?(@.type=="Synchronized")]}{.status} {.reason} {.message}{end}`
)

// TestKilledGuest: a VMI whose QEMU was killed has failed and says why, and its VM runs again if its run strategy asks for that.
func TestKilledGuest(t *testing.T) {
	s := newSpace(t)
	m := s.startMachine()
	s.create(onMachine("once", m, "runStrategy: Always", "runStrategy: Once"))
	s.create(onMachine("rerun", m, "runStrategy: Always", "runStrategy: RerunOnFailure"))
	s.says("vmi", "once", phase, "Running")
	s.says("vmi", "rerun", phase, "Running")
	before := s.get("vmi", "rerun").GetUID()
	for _, name := range []string{"once", "rerun"} {
		if err := libvirt.Signal(s.name+"_"+name, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	s.says("vmi", "once", phase, "Failed")
	s.says("vmi", "once", ready, "False Crashed the guest's kernel panicked, or QEMU crashed")
	s.longer("an event says how the guest has ended", func() bool {
		for _, event := range s.list("events", "") {
			if field(&event, "involvedObject", "kind") == "VirtualMachineInstance" && field(&event, "involvedObject", "name") == "once" &&
				field(&event, "type") == "Warning" && field(&event, "reason") == "Crashed" {
				return true
			}
		}
		return false
	})
	s.longer("the guest is run again", func() bool {
		again := s.read("vmi", "rerun", "{.metadata.uid} {.status.phase}").stdout
		return strings.HasSuffix(again, " Running") && !strings.HasPrefix(again, string(before))
	})
}

// TestWrongImage: the first mistake of every newcomer. A VM whose image is not there is claimed and never starts. It can be halted,
// and starts when the image is there.
func TestWrongImage(t *testing.T) {
	s := newSpace(t)
	m := s.startMachine()
	wrong := onMachine("wrong", m, "emptyDisk: {capacity: 1Gi}", "containerDisk: {image: 'demo.example/late:1'}")
	s.create(wrong)
	s.says("vmi", "wrong", synchronized, "False NotBindable")
	s.must(s.kubectl("", "patch", "vm", "wrong", "--type=merge", "-p", `{"spec":{"runStrategy":"Halted"}}`))
	s.longer("the guest that never ran is gone", func() bool { return !s.exists("vmi", "wrong") })
	s.says("vm", "wrong", "{.status.printableStatus}", "Stopped")

	dir := filepath.Join(m.volumes, "containers/demo.example/late:1/disk")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "disk.img"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	s.must(s.kubectl("", "patch", "vm", "wrong", "--type=merge", "-p", `{"spec":{"runStrategy":"Always"}}`))
	s.says("vmi", "wrong", phase, "Running")
}

// TestPausedGuest: a VMI that is started paused, or suspended on its machine, is not Ready.
func TestPausedGuest(t *testing.T) {
	s := newSpace(t)
	m := s.startMachine()
	s.create(onMachine("demo", m, "      domain:", "      startStrategy: Paused\n      domain:"))
	s.says("vmi", "demo", paused, "True PausedByUser")
	s.says("vmi", "demo", ready, "False PausedByUser")
	s.says("vm", "demo", "{.status.printableStatus}", "Paused")
	if state, err := m.State(s.name + "_demo"); err != nil || state != "paused" {
		t.Errorf("libvirt says '%s' (%v), want 'paused'", state, err)
	}
	if err := m.Resume(s.name + "_demo"); err != nil {
		t.Fatal(err)
	}
	s.says("vmi", "demo", ready, "True")
	if still := s.read("vmi", "demo", paused).stdout; still != "" {
		t.Errorf("a guest that runs has the condition Paused: %s", still)
	}
	if err := m.Suspend(s.name + "_demo"); err != nil {
		t.Fatal(err)
	}
	s.says("vmi", "demo", ready, "False PausedByUser")
}

// TestLibvirtComesLater: a launcher that was started before libvirt claims and starts VMIs when that is there.
func TestLibvirtComesLater(t *testing.T) {
	s := newSpace(t)
	m := s.startMachineWith(func(n *cluster.Node) { n.Socket = filepath.Join(filepath.Dir(n.State), "later.sock") })
	s.create(onMachine("demo", m))
	s.longer("what would be started is told", func() bool {
		uid := s.read("vmi", "demo", "{.metadata.uid}").stdout
		_, err := os.Stat(filepath.Join(m.state, uid, "domain.xml"))
		return uid != "" && err == nil
	})
	if node := s.read("vmi", "demo", "{.status.nodeName}").stdout; node != "" {
		t.Errorf("claimed by '%s', which has no libvirt", node)
	}
	if err := os.Symlink(m.Socket, filepath.Join(filepath.Dir(m.state), "later.sock")); err != nil {
		t.Fatal(err)
	}
	s.says("vmi", "demo", phase, "Running")
}

// TestOneHangingImage: a VMI whose image hangs does not keep other VMIs of its machine from being started and stopped.
func TestOneHangingImage(t *testing.T) {
	s := newSpace(t)
	dir := t.TempDir()
	hold := filepath.Join(dir, "hold")
	// The program that inspects images hangs on images of one name, as on a server that is gone.
	program := "#!/bin/sh\ncase \"$*\" in *demo.example/hangs*) while [ -e '" + hold + "' ]; do sleep 0.2; done;; esac\nexec /usr/bin/qemu-img \"$@\"\n"
	for file, text := range map[string]string{filepath.Join(dir, "qemu-img"): program, hold: ""} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := s.startMachineWith(func(n *cluster.Node) { n.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")} })
	s.Cleanup(func() { os.Remove(hold) })
	for _, image := range []string{"hangs", "works"} {
		tree := filepath.Join(m.volumes, "containers/demo.example", image+":1/disk")
		if err := os.MkdirAll(tree, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tree, "disk.img"), make([]byte, 1<<20), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	volume := func(image string) []string {
		return []string{"emptyDisk: {capacity: 1Gi}", "containerDisk: {image: 'demo.example/" + image + ":1'}"}
	}
	s.create(onMachine("hangs", m, volume("hangs")...))
	s.says("vmi", "hangs", phase, "Scheduled")
	s.create(onMachine("works", m, volume("works")...))
	s.says("vmi", "works", phase, "Running")
	s.must(s.kubectl("", "patch", "vm", "works", "--type=merge", "-p", `{"spec":{"runStrategy":"Halted"}}`))
	s.longer("the other guest is stopped", func() bool { return !s.exists("vmi", "works") })
	if now := s.read("vmi", "hangs", phase).stdout; now != "Scheduled" {
		t.Errorf("the guest whose image hangs is '%s': nothing was shown", now)
	}
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	s.says("vmi", "hangs", phase, "Running")
}
