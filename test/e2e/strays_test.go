package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestForeignDomains: domains of the machine's administrator are neither adopted nor ended, and no message has their names.
func TestForeignDomains(t *testing.T) {
	s := newSpace(t)
	m := s.startMachine()
	const uuid = "11111111-2222-4333-8444-555555555555"
	theirs := map[string]string{s.name + "_db": "11111111-2222-4333-8444-000000000000", "victim_payroll": uuid}
	for name, uuid := range theirs {
		if _, err := m.Define(`<domain type="qemu"><name>` + name + `</name><uuid>` + uuid + `</uuid><memory unit="MiB">32</memory><vcpu>1</vcpu>` +
			`<os><type arch="x86_64" machine="q35">hvm</type></os></domain>`); err != nil {
			t.Fatal(err)
		}
		if err := m.Create(name); err != nil {
			t.Fatal(err)
		}
	}
	s.create(onMachine("db", m))
	s.create(onMachine("clone", m, "        devices:", "        firmware: {uuid: "+uuid+"}\n        devices:"))
	s.says("vmi", "db", synchronized, "False NameTaken")
	s.says("vmi", "clone", synchronized, "False UUIDTaken the firmware UUID '"+uuid+"' is in use")
	if text := s.must(s.kubectl("", "get", "vm,vmi,events", "-o", "yaml")).stdout; strings.Contains(text, "payroll") {
		t.Error("a tenant is told the name of another's guest")
	}
	s.must(s.kubectl("", "delete", "vm", "db", "clone", "--timeout=60s"))
	for name := range theirs {
		if state, err := m.State(name); err != nil || state != "running" {
			t.Errorf("the administrator's domain '%s' is '%s' (%v), want it running as before", name, state, err)
		}
	}
}

// lost removes a VMI without its launcher, as a tenant can: finalizers are not judged.
func (s space) lost(name string) {
	s.Helper()
	s.must(s.kubectl("", "delete", "vmi", name, "--wait=false"))
	s.must(s.kubectl("", "patch", "vmi", name, "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`))
}

// longer waits for what takes its time.
func (s space) longer(what string, done func() bool) {
	s.Helper()
	if !s.late(done) {
		s.Fatalf("did not come to pass: %s", what)
	}
}

// stranded is a VMI without a VM, which no controller makes again.
func stranded(name string, m machine) string {
	return `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: ` + name +
		`}, spec: {terminationGracePeriodSeconds: 300, nodeSelector: {machine: ` + m.name +
		`}, domain: {memory: {guest: 64Mi}, cpu: {model: qemu64}, devices: {autoattachPodInterface: false}}}}`
}

// TestStrays: a domain whose VMI is gone is ended, with its files: one that is in the way of a successor soon, others in the launcher's
// next round and at its start. The successor gets a domain of its own.
func TestStrays(t *testing.T) {
	s := newSpace(t)
	m := s.startMachine()
	s.create(stranded("zombie", m))
	s.create(stranded("stays", m))
	s.says("vmi", "zombie", phase, "Running")
	s.says("vmi", "stays", phase, "Running")
	files := filepath.Join(m.state, string(s.get("vmi", "zombie").GetUID()))
	if _, err := os.Stat(files); err != nil {
		t.Fatal(err)
	}
	s.lost("zombie")
	s.create(strings.Replace(stranded("zombie", m), "cpu: {", "cpu: {cores: 2, ", 1))
	s.says("vmi", "zombie", synchronized, "False NameTaken")
	s.longer("the successor has a guest of its own", func() bool {
		return s.read("vmi", "zombie", phase).stdout == "Running"
	})
	if xml, err := m.ActiveXML(s.name + "_zombie"); err != nil || !strings.Contains(xml, string(s.get("vmi", "zombie").GetUID())) ||
		strings.Contains(xml, ">1</vcpu>") {
		t.Errorf("%v, or the successor runs as its predecessor:\n%s", err, xml)
	}
	if _, err := os.Stat(files); !os.IsNotExist(err) {
		t.Errorf("the files of the guest that is gone stay: %v", err)
	}

	if err := m.launcher.stop(); err != nil {
		t.Fatal(err)
	}
	s.lost("zombie")
	s.startLauncher(m)
	s.longer("a domain whose VMI went while no launcher ran is ended", func() bool {
		_, err := m.State(s.name + "_zombie")
		return err != nil
	})
	time.Sleep(time.Second) // what else might be ended has had its chance
	if state, err := m.State(s.name + "_stays"); err != nil || state != "running" {
		t.Errorf("a guest whose VMI is there is '%s' (%v)", state, err)
	}
	s.must(s.kubectl("", "patch", "vmi", "stays", "--type=merge", "-p", `{"metadata":{"labels":{"looked":"at"}}}`))
	if err := m.Destroy(s.name + "_stays"); err != nil {
		t.Fatal(err)
	}
	s.must(s.kubectl("", "delete", "vmi", "stays", "--timeout=60s"))
}
