package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/nightly"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// earlier is the commit that is upgraded from, and that the way back leads to.
const earlier = "6c6aa104"

// frontend is a FrontendProfile, by which the guests of this test have other strings than by Kiln's own values.
const frontend = "{apiVersion: kilnvm.io/v1alpha1, kind: FrontendProfile, metadata: {name: v1}, spec: {smbios: {manufacturer: Acme}, freePorts: 3}}"

// TestUpgradeAndBack: guests of an earlier Kiln, with each kind of pin, a record, a snapshot and a FrontendProfile, are the same after an upgrade, a way back
// and another upgrade: pins, identity, VMI, record and what libvirt runs. None restarts by itself, nothing is refused that was admitted, and no definition has
// a stored version that the other Kiln does not have. What one Kiln makes, the other starts.
func TestUpgradeAndBack(t *testing.T) {
	nightly.Only(t)
	if out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "cat-file", "-e", earlier+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("the repository has no commit %s to upgrade from: %v %s", earlier, err, out)
	}
	a := newAloneBy(t, cluster.Options{Configuration: hardwareConfiguration, Release: earlier, Replicas: 2})
	s := newSpaceOn(t, a.Cluster)
	u := &upgrade{space: s, machine: s.startMachine(), guests: map[string]state{}}
	u.make()
	u.restartAll("a restart by the earlier Kiln")
	for i, move := range []struct{ to, why string }{{"", "the upgrade"}, {earlier, "the way back"}, {"", "the second upgrade"}} {
		u.move(move.to)
		u.unchanged(move.why)
		u.admits(move.why)
		u.restored(fmt.Sprintf("restore%d", i), move.why)
		u.restartAll(move.why + " and a restart")
		u.starts(fmt.Sprintf("made%d", i))
		u.grows(i, move.why)
	}
	u.laterRecord()
	u.must(u.kubectl("", "delete", "vmi", "bare", "--timeout=60s")) // the end of a machine deletes VMs alone
}

// upgrade is a namespace whose guests outlive versions of Kiln.
type upgrade struct {
	space
	machine
	guests map[string]state
}

// state is what must not change.
type state struct {
	VM     string // its spec and Kiln's annotations
	VMI    string
	Record record.Record
	Domain string // what libvirt runs
	CPU    string // what libvirt runs, with all features
	uid    string
}

// paused are changes of a VM whose guest need not boot: its hardware is complete.
var pausedVM = []string{"runStrategy: Halted", "runStrategy: Always", "      domain:", "      startStrategy: Paused\n      domain:"}

// vm is a VM of this machine.
func (u *upgrade) vm(name string, changes ...string) string {
	return vm(name, append([]string{"nodeSelector: {machine: none}", "terminationGracePeriodSeconds: 0\n      nodeSelector: {machine: " + u.name() + "}",
		"runStrategy: Halted\n  instancetype: {name: small}", "runStrategy: Halted\n  instancetype: {name: own, kind: VirtualMachineInstancetype}"}, changes...)...)
}

func (u *upgrade) name() string { return u.machine.name }

// make makes the guests: a VM with devices on each bus, a preset and an instancetype of its namespace; a VM with profiles; a VM that has not run; a VM with a
// snapshot; and a VMI without a VM.
func (u *upgrade) make() {
	u.Helper()
	u.apply(hardwareSize, hardwarePreset, hardwareProfile, frontend)
	u.eventually("the version is in force", func() bool {
		return u.read("frontendprofiles", "v1", `{.status.conditions[?(@.type=="InForce")].status}`).stdout == "True"
	})
	u.furnish()
	u.apply(strings.Replace(furnished(u.machine), "      domain:\n", "      startStrategy: Paused\n      domain:\n", 1),
		u.vm("profiled", append(pausedVM, "  template:\n", "  template:\n    metadata: {labels: {app: web}}\n")...),
		u.vm("kept", pausedVM...), u.vm("halted"),
		`{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: bare}, spec: `+
			strings.Replace(frontedSpec(u.machine), "{", "{startStrategy: Paused, ", 1)+`}`)
	for _, name := range []string{"demo", "profiled", "kept"} {
		u.guests[name] = u.booted(name)
	}
	u.guests["bare"] = u.booted("bare")
	if r := u.guests["demo"].Record; r.Defaults != "v1" || r.SMBIOS["manufacturer"] != "Acme" {
		u.Fatalf("the FrontendProfile has no effect: %+v", r)
	}
	u.create(fmt.Sprintf(snapshotting, "first", "kept"))
	u.must(u.kubectl("", "wait", "vmsnapshot/first", "--for=condition=Ready", "--timeout=60s"))
	// Only revisions have what the VMs are pinned to.
	u.apply(otherSize, otherPreset)
	u.must(u.kubectl("", "delete", "guestprofile", "web"))
}

// booted waits until a guest runs, and returns its state.
func (u *upgrade) booted(name string) state {
	u.Helper()
	u.says("vmi", name, paused, "True PausedByUser")
	u.eventually("the boot is counted", func() bool {
		return u.read("guesthardware", name, "{.status.lastBoot.uid}").stdout == string(u.get("vmi", name).GetUID())
	})
	return u.now(name)
}

// volatile are what differs between two starts of one guest.
var volatile = regexp.MustCompile(`<domain [^>]*>|<genid>[^<]*</genid>|channel/target/domain-\d+`)

// now is the state of a guest that runs.
func (u *upgrade) now(name string) (is state) {
	u.Helper()
	vmi := u.get("vmi", name)
	is.uid = string(vmi.GetUID())
	if name != "bare" {
		is.VM = u.kept(u.get("vm", name))
	}
	is.VMI, is.Record = u.kept(vmi), u.recorded(name)
	xml, err := u.ActiveXML(u.space.name + "_" + name)
	if err != nil {
		u.Fatal(err)
	}
	is.Domain = volatile.ReplaceAllString(strings.ReplaceAll(biosElement.ReplaceAllString(cpuElement.ReplaceAllString(xml, ""), ""), is.uid, "UID"), "")
	is.CPU = u.expandedCPU(xml)
	// The earlier Kiln's definition does not have these: see grows.
	is.Record.BootDisk, is.Record.Firmware, is.Record.CPU, is.Record.SchemaVersion = "", "", nil, 0
	is.Record.BIOS = nil
	is.Record.Digest = "" // it covers the CPU, which only this tree asks for by its features
	return is
}

// biosElement is the strings of the BIOS of a guest that this tree boots first. The earlier Kiln drops them from the record.
var biosElement = regexp.MustCompile(`(?s)\s*<bios>.*?</bios>`)

// cpuElement is the CPU in a domain's XML, except topology and NUMA nodes, which are not between model and the last feature.
var cpuElement = regexp.MustCompile(`\s*(<cpu mode=[^>]*>|<model fallback[^/]*</model>|<vendor>[^/]*</vendor>|<feature policy=[^>]*/>)`)

// expandedCPU returns the CPU of a domain with all its features. The earlier Kiln asks libvirt for host-model, and this tree for each feature.
func (u *upgrade) expandedCPU(xml string) string {
	u.Helper()
	file := filepath.Join(u.TempDir(), "domain.xml")
	if err := os.WriteFile(file, []byte(xml), 0o600); err != nil {
		u.Fatal(err)
	}
	out, err := exec.CommandContext(u.Context(), "virsh", "-c", u.URI, "hypervisor-cpu-baseline", "--virttype", "qemu", "--features", file).CombinedOutput()
	if err != nil {
		u.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// kept are spec and Kiln's annotations of an object.
func (u *upgrade) kept(object *unstructured.Unstructured) string {
	u.Helper()
	annotations := map[string]string{}
	for key, value := range object.GetAnnotations() {
		if strings.HasPrefix(key, v1alpha1.Prefix) {
			annotations[key] = value
		}
	}
	spec := object.DeepCopy().Object["spec"]
	text, err := json.MarshalIndent([]any{annotations, spec}, "", " ")
	if err != nil {
		u.Fatal(err)
	}
	return strings.ReplaceAll(string(text), string(object.GetUID()), "UID")
}

// move moves Kiln and the launcher to a commit.
func (u *upgrade) move(to string) {
	u.Helper()
	if err := u.on.MoveTo(u.Context(), to); err != nil {
		u.Fatal(err)
	}
	if err := u.launcher.stop(); err != nil {
		u.Fatal(err)
	}
	u.startLauncher(u.machine)
	u.storedVersions()
}

// storedVersions: each definition has stored objects of a version that it serves and writes.
func (u *upgrade) storedVersions() {
	u.Helper()
	list, err := u.on.List(u.Context(), cluster.In{Kind: "crd"}, "")
	if err != nil || len(list.Items) == 0 {
		u.Fatalf("%d definitions: %v", len(list.Items), err)
	}
	for i := range list.Items {
		var definition apiextensions.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &definition); err != nil {
			u.Fatal(err)
		}
		stored := ""
		for _, version := range definition.Spec.Versions {
			if version.Storage && version.Served {
				stored = version.Name
			}
		}
		if all := definition.Status.StoredVersions; len(all) != 1 || all[0] != stored {
			u.Errorf("%s has stored versions %v, and stores '%s'", definition.Name, all, stored)
		}
	}
}

// unchanged: all guests run on, with what they had.
func (u *upgrade) unchanged(why string) {
	u.Helper()
	for name, was := range u.guests {
		is := u.now(name)
		if is.uid != was.uid {
			u.Errorf("%s restarts '%s'", why, name)
		}
		u.same(name, why, was, is)
	}
}

func (u *upgrade) same(name, why string, was, is state) {
	u.Helper()
	is.uid = was.uid
	if diff := cmp.Diff(was, is, cmp.AllowUnexported(state{})); diff != "" {
		u.Errorf("%s changes '%s' (-before +after):\n%s", why, name, diff)
	}
}

// restartAll restarts the VMs, and compares them with what they were.
func (u *upgrade) restartAll(why string) {
	u.Helper()
	for name, was := range u.guests {
		if name == "bare" {
			continue
		}
		u.restart(name)
		is := u.booted(name)
		u.same(name, why, was, is)
		was.uid = is.uid
		u.guests[name] = was
	}
}

// admits: each stored object, and each with one more label, is admitted again, as are new ones.
func (u *upgrade) admits(why string) {
	u.Helper()
	for _, kind := range []string{"vm", "vmi", "virtualmachineinstancetype", "virtualmachinepreference", "virtualmachineclusterinstancetype",
		"virtualmachineclusterpreference", "virtualmachineinstancepreset", "guestprofile", "clusterguestprofile", "frontendprofile", "hostprofile",
		"guesthardware", "vmsnapshot"} {
		for _, object := range u.list(kind, "") {
			for _, label := range []string{"", "more"} {
				changed := object.DeepCopy()
				if label != "" {
					changed.SetLabels(map[string]string{label: label})
				}
				if result := u.kubectl(mustJSON(u.T, changed), "replace", "--dry-run=server", "-f", "-"); result.err != nil {
					u.Errorf("after %s %s '%s' is refused: %s", why, kind, object.GetName(), result.stderr)
				}
			}
		}
	}
	for _, manifest := range []string{hardwareSize, hardwarePreset, strings.ReplaceAll(furnished(u.machine), "name: demo", "name: other"), u.vm("other")} {
		if result := u.kubectl(manifest, "apply", "--dry-run=server", "-f", "-"); result.err != nil {
			u.Errorf("after %s: %s", why, result.stderr)
		}
	}
}

// restored: the snapshot of the earlier Kiln restores its VM, to which the guest comes back.
func (u *upgrade) restored(name, why string) {
	u.Helper()
	runs := func(strategy string) {
		u.must(u.kubectl("", "patch", "vm", "kept", "--type=merge", `-p={"spec":{"runStrategy":"`+strategy+`"}}`))
	}
	runs("Halted")
	u.longer("the VMI is gone", func() bool { return !u.exists("vmi", "kept") })
	u.must(u.kubectl("", "patch", "vm", "kept", "--type=merge", `-p={"spec":{"template":{"spec":{"domain":{"devices":{"rng":{}}}}}}}`))
	u.create(strings.Replace(fmt.Sprintf(restoringTo, name, "", "first", "FailImmediate"), "name: demo", "name: kept", 1))
	if complete, failure, _ := u.restore(name); !complete {
		u.Fatalf("after %s: %s", why, failure)
	}
	runs("Always")
	u.longer("the VM has its VMI", func() bool { return u.exists("vmi", "kept") })
	was, is := u.guests["kept"], u.booted("kept")
	was.VM, was.VMI, was.Record.Digest = is.VM, is.VMI, is.Record.Digest // they have another generation ID
	u.same("kept", why+" and a restore", was, is)
	u.guests["kept"] = is
}

// starts: a VM that the earlier Kiln has pinned, and that has never run, starts as it was pinned. A new VM starts, too.
func (u *upgrade) starts(made string) {
	u.Helper()
	u.apply(u.vm(made, pausedVM...))
	u.guests[made] = u.booted(made)
	if r := u.guests[made].Record; r.Defaults != "v1" {
		u.Errorf("'%s' has defaults '%s'", made, r.Defaults)
	}
	if _, started := u.guests["halted"]; started {
		return
	}
	pinned := u.get("vm", "halted").GetAnnotations()[pinsAnnotation]
	u.must(u.kubectl("", "patch", "vm", "halted", "--type=merge", `-p={"spec":{"runStrategy":"Always","template":{"spec":{"startStrategy":"Paused"}}}}`))
	u.guests["halted"] = u.booted("halted")
	if memory := field(u.get("vmi", "halted"), "spec", "domain", "memory", "guest"); memory != "1Gi" {
		u.Errorf("'halted' has the memory of the edited instancetype: %v", memory)
	}
	if is := u.get("vm", "halted").GetAnnotations()[pinsAnnotation]; is != pinned {
		u.Errorf("'halted' was pinned to %s and is to %s", pinned, is)
	}
}

// grows adds a disk to VM 'profiled'. No device that was there moves. The record has its boot disk after a boot by the later Kiln.
func (u *upgrade) grows(i int, why string) {
	u.Helper()
	was := u.guests["profiled"].Record
	disk := fmt.Sprintf("added%d", i)
	u.must(u.kubectl("", "patch", "vm", "profiled", "--type=json", `-p=[
		{"op":"add","path":"/spec/template/spec/domain/devices/disks/0","value":{"name":"`+disk+`"}},
		{"op":"add","path":"/spec/template/spec/volumes/0","value":{"name":"`+disk+`","emptyDisk":{"capacity":"1Mi"}}}]`))
	u.restart("profiled")
	is := u.booted("profiled")
	if _, added := is.Record.Devices[record.Key("disk", disk)]; !added {
		u.Errorf("after %s the record has no new disk: %v", why, is.Record.Devices)
	}
	for key, at := range was.Devices {
		if _, port := record.Port(key); !port && !cmp.Equal(is.Record.Devices[key], at) {
			u.Errorf("after %s %s moves from %s to %s", why, key, at, is.Record.Devices[key])
		}
	}
	stored, later := u.recorded("profiled"), u.on.Release == ""
	if later != (stored.BootDisk != "") {
		u.Errorf("after %s the record has the boot disk '%s'", why, stored.BootDisk)
	}
	// The earlier Kiln drops the CPU of the record, so that each boot after it is the first one that is seen.
	if seen := stored.CPU != nil && stored.CPU.Model == "EPYC" && stored.CPU.FirstSeen; later != seen {
		u.Errorf("after %s the record has the CPU %+v", why, stored.CPU)
	}
	u.guests["profiled"] = is
}

// laterRecord: this tree keeps what a later Kiln would record, over a boot that adds a disk and over a snapshot. New hardware has none of it.
func (u *upgrade) laterRecord() {
	u.Helper()
	const cache = `{"model":"EPYC-v4","features":["a<b"]}`
	u.must(u.kubectl("", "patch", "guesthardware", "profiled", "--type=merge", `-p={"spec":{"hardware":{"schemaVersion":5,"cache":`+cache+`}}}`))
	keeps := func(why string, want bool) {
		u.Helper()
		r := u.recorded("profiled")
		if is := r.SchemaVersion == 5 && r.Unknown["cache"] != nil; is != want {
			u.Errorf("%s: the record has version %d and %s", why, r.SchemaVersion, r.Unknown)
		}
	}
	u.grows(9, "a later Kiln")
	keeps("a boot that adds a disk", true)
	events := u.must(u.kubectl("", "get", "events.events.k8s.io", "-o", "jsonpath={.items[*].note}")).stdout
	if !strings.Contains(events, "does not reproduce, 'cache'") {
		u.Errorf("no event names the field: %s", events)
	}
	u.create(fmt.Sprintf(snapshotting, "later", "profiled"))
	u.must(u.kubectl("", "wait", "vmsnapshot/later", "--for=condition=Ready", "--timeout=60s"))
	u.must(u.kubectl("", "annotate", "vm", "profiled", "kilnvm.io/hardware=latest"))
	u.restart("profiled")
	u.booted("profiled")
	keeps("new hardware", false)
	u.must(u.kubectl("", "patch", "vm", "profiled", "--type=merge", `-p={"spec":{"runStrategy":"Halted"}}`))
	u.longer("the VMI is gone", func() bool { return !u.exists("vmi", "profiled") })
	u.create(strings.Replace(fmt.Sprintf(restoringTo, "later", "", "later", "FailImmediate"), "name: demo", "name: profiled", 1))
	if complete, failure, _ := u.restore("later"); !complete {
		u.Fatal(failure)
	}
	keeps("a restore", true)
}
