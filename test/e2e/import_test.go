package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// foreignMachine is a machine of virt-install that libvirt has defined, with devices at places that Kiln would not choose.
const foreignMachine = `<domain type='kvm'><name>old</name><uuid>0d3f3cb0-6a52-4bd5-9f5f-2f7a4e1c9d12</uuid><memory unit='MiB'>512</memory><vcpu>2</vcpu>
<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os><features><acpi/><apic/></features><cpu mode='custom'><model>Westmere</model></cpu>
<devices><controller type='pci' index='0' model='pcie-root'/>
<controller type='pci' index='1' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0'/></controller>
<controller type='pci' index='7' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x00' slot='0x03' function='0x0'/></controller>
<disk type='file' device='disk'><source file='/images/old.img'/><target dev='vda' bus='virtio'/>
<address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></disk>
<interface type='user'><mac address='52:54:00:11:22:33'/><model type='virtio'/>
<address type='pci' domain='0x0000' bus='0x07' slot='0x00' function='0x0'/></interface></devices></domain>`

// An imported machine is created whole or not at all. A run that was interrupted is completed by the next one, and what somebody else made is not touched.
func TestImportIsApplied(t *testing.T) {
	s := newSpace(t)
	file := filepath.Join(t.TempDir(), "old.xml")
	if err := os.WriteFile(file, []byte(foreignMachine), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(flags ...string) answer {
		t.Helper()
		return s.kiln(append([]string{"import", file, "--apply", "--size", "vda=1Gi"}, flags...)...)
	}
	lines := func(a answer) []string {
		t.Helper()
		return strings.Split(strings.TrimSpace(strings.ReplaceAll(s.must(a).stdout, s.name+"/", "")), "\n")
	}
	refused := func(a answer, words ...string) {
		t.Helper()
		for _, word := range append(words, "nothing is written") {
			if s.status(a) != 1 || !strings.Contains(a.stderr, word) {
				t.Errorf("status %d, want 1 and '%s'\n%s%s", s.status(a), word, a.stdout, a.stderr)
			}
		}
	}
	exist := func() (names []string) {
		t.Helper()
		for _, kind := range []string{"persistentvolumeclaim", "guesthardware", "vm"} {
			for _, object := range s.list(kind, "") {
				names = append(names, kind+" "+object.GetName())
			}
		}
		return names
	}

	// The account may do all but write hardware records.
	s.must(s.kubectl("", "create", "role", "mover", "--verb=get,create,update",
		"--resource=persistentvolumeclaims,virtualmachines.kubevirt.io,guesthardwares.kilnvm.io"))
	s.must(s.kubectl("", "create", "rolebinding", "mover", "--role=mover", "--serviceaccount="+s.name+":mover"))
	refused(run("--as", "system:serviceaccount:"+s.name+":mover", "--runtime", "node"), "may not write GuestHardware")
	for size, reason := range map[string]string{"2Gi": "exists and is different: spec.resources.requests.storage", "1024Mi": "no import has made it"} {
		s.must(s.kubectl("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: old-vda}\n"+
			"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "+size+"}}}\n", "create", "-f", "-"))
		refused(run(), "PersistentVolumeClaim "+s.name+"/old-vda: ", reason)
		if diff := cmp.Diff([]string{"persistentvolumeclaim old-vda"}, exist()); diff != "" {
			t.Fatalf("a refused import has written (-want +got):\n%s", diff)
		}
		s.must(s.kubectl("", "delete", "persistentvolumeclaim", "old-vda", "--wait=false"))
		s.must(s.kubectl("", "patch", "persistentvolumeclaim", "old-vda", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`))
	}

	want := []string{"PersistentVolumeClaim old-vda: created", "GuestHardware old: created", "VirtualMachine old: created"}
	if diff := cmp.Diff(want, lines(run())); diff != "" {
		t.Fatalf("the first run (-want +got):\n%s", diff)
	}
	if strategy := field(s.get("vm", "old"), "spec", "runStrategy"); strategy != "Halted" {
		t.Errorf("the VM has the run strategy '%v'", strategy)
	}
	s.must(s.kubectl("", "delete", "vm", "old")) // as if the first run had been killed before the last write
	want = []string{"PersistentVolumeClaim old-vda: unchanged", "GuestHardware old: unchanged", "VirtualMachine old: created"}
	if diff := cmp.Diff(want, lines(run())); diff != "" {
		t.Errorf("after an interruption (-want +got):\n%s", diff)
	}
	want[2] = "VirtualMachine old: unchanged"
	if diff := cmp.Diff(want, lines(run())); diff != "" {
		t.Errorf("again (-want +got):\n%s", diff)
	}
	domain := s.must(s.kiln("render", "vm/old")).stdout
	for _, place := range []string{`<mac address="52:54:00:11:22:33">`, `bus="0x07"`, `<uuid>0d3f3cb0-6a52-4bd5-9f5f-2f7a4e1c9d12</uuid>`,
		`machine="pc-q35-7.2"`} {
		if !strings.Contains(domain, place) {
			t.Errorf("the VM of the cluster boots without %s:\n%s", place, domain)
		}
	}
	s.must(s.kubectl("", "patch", "vm", "old", "--type=merge", "-p", `{"spec":{"runStrategy":"Manual"}}`))
	refused(run(), "VirtualMachine "+s.name+"/old: exists and is different: spec.runStrategy")
	if got := run("--name", "Old_Name"); s.status(got) == 0 {
		t.Errorf("a name that no VM can have: %s", got.stdout)
	}
}
