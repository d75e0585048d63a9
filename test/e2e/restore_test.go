package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// backup is an object as a backup tool writes it anew.
func backup(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	for _, set := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences"} {
		unstructured.RemoveNestedField(object.Object, "metadata", set)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	return mustJSON(t, object)
}

// seen is what a guest knows itself and its machine by.
func seen(guest *unstructured.Unstructured) map[string]any {
	return map[string]any{
		"memory":     field(guest, "spec", "domain", "memory", "guest"),
		"uuid":       field(guest, "spec", "domain", "firmware", "uuid"),
		"serial":     field(guest, "spec", "domain", "firmware", "serial"),
		"interfaces": field(guest, "spec", "domain", "devices", "interfaces"),
	}
}

// booted is the hardware record that a launcher writes.
const booted = `{"spec": {"hardware": {"defaults": "v1", "digest": "sha256:` + sixtyFour + `", "machine": "pc-q35-7.2", "serial": "seen",
	"devices": {"disk.data": {"pci": "0000:0b:00.0"}}}}}`

const sixtyFour = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// claim stands for a launcher that claims the VMI of a VM and waits for its hardware.
func (s space) claim(name string) {
	s.Helper()
	s.must(s.kubectl("", "patch", "vmi", name, "--subresource=status", "--type=merge", `-p={"status":{"nodeName":"none","phase":"Scheduled"}}`))
	uid := string(s.get("vmi", name).GetUID())
	s.eventually("the guest has its hardware", func() bool {
		return s.exists("guesthardware", name) && field(s.get("guesthardware", name), "status", "guest", "uid") == uid
	})
}

// A backup of a VM, of its hardware and of the revisions that it is pinned to brings the same machine back, although its instancetype has changed since.
// Nothing in it has a status, and the UIDs in it belong to objects that are gone.
func TestRestoreBringsTheSameGuestBack(t *testing.T) {
	s := newSpace(t)
	s.create(size("own", 1, "128Mi"))
	guest := vm("demo", append(running, "{name: small}", "{name: own, kind: VirtualMachineInstancetype}")...)
	s.create(guest)
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	before := seen(s.get("vmi", "demo"))
	s.claim("demo")
	s.must(s.kubectl("", "patch", "guesthardware", "demo", "--type=merge", "-p="+booted))
	saved, hardware := s.get("vm", "demo"), s.get("guesthardware", "demo")
	was, recorded := pins(t, saved), field(hardware, "spec", "hardware")
	if uid := field(hardware, "status", "virtualMachineUID"); uid != string(saved.GetUID()) || len(hardware.GetOwnerReferences()) > 0 {
		t.Errorf("the hardware names VM '%v' and the owners %v; want '%s' and none", uid, hardware.GetOwnerReferences(), saved.GetUID())
	}
	old := saved.GetUID()
	saveVM, saveHardware := backup(t, saved), backup(t, hardware)
	var saveRevisions []string
	for _, revision := range s.list("controllerrevision", "instancetype.kubevirt.io/object-kind") {
		saveRevisions = append(saveRevisions, backup(t, &revision))
	}

	s.must(s.kubectl("", "delete", "vm", "demo", "--timeout=60s"))
	s.eventually("the VMI is gone", func() bool { return !s.exists("vmi", "demo") })
	s.eventually("the hardware goes with its guest", func() bool { return !s.exists("guesthardware", "demo") })
	s.must(s.kubectl("", "delete", "controllerrevision", "--all", writer))
	s.must(s.kubectl(size("own", 2, "256Mi"), "replace", "-f", "-"))

	s.create(saveHardware)
	owned := strings.Replace(saveHardware, `"metadata":{`,
		`"metadata":{"ownerReferences":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","name":"demo","uid":"`+string(old)+`"}],`, 1)
	if result := s.kubectl(owned, "replace", "-f", "-"); result.err == nil || !strings.Contains(result.stderr, "the garbage collector would delete") {
		t.Errorf("hardware with an owner that is gone: %s", result.stdout+result.stderr)
	}
	s.collected(string(old))
	for _, revision := range saveRevisions {
		s.must(s.kubectl(revision, "create", "-f", "-", writer))
	}
	s.eventually("the webhook has seen the revisions, and the pins are kept", func() bool {
		a := s.must(s.kubectl(saveVM, "create", "--dry-run=server", "-o", "json", "-f", "-"))
		return a.stderr == ""
	})
	s.create(saveVM)
	if diff := cmp.Diff(was, pins(t, s.get("vm", "demo"))); diff != "" {
		t.Errorf("the restored VM has other pins:\n%s", diff)
	}
	s.eventually("the VM has its VMI again", func() bool { return s.exists("vmi", "demo") })
	before["serial"] = "seen" // the record wins over the seed
	if diff := cmp.Diff(before, seen(s.get("vmi", "demo"))); diff != "" {
		t.Errorf("the guest is another one:\n%s", diff)
	}
	s.claim("demo")
	s.collected(string(old))
	restored := s.get("guesthardware", "demo")
	if diff := cmp.Diff(recorded, field(restored, "spec", "hardware")); diff != "" {
		t.Errorf("the guest starts with other hardware than was saved:\n%s", diff)
	}
	if uid := field(restored, "status", "virtualMachineUID"); uid != string(s.get("vm", "demo").GetUID()) || uid == string(old) {
		t.Errorf("the hardware is of VM '%v', want the restored one, with which it goes", uid)
	}
	s.restoreWithout(saveVM, was["instancetype"], before)
}

// collected waits until the garbage collector has taken an object of the owner's, so that it has had its time with all others.
func (s space) collected(owner string) {
	s.Helper()
	s.create(`{apiVersion: v1, kind: ConfigMap, metadata: {name: canary, ownerReferences: [` +
		`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: demo, uid: ` + owner + `}]}}`)
	s.eventually("the garbage collector takes what has an owner that is gone", func() bool { return !s.exists("configmap", "canary") })
}

// restoreWithout restores the VM alone: it gets its instancetype as it is now, a warning, and new hardware.
func (s space) restoreWithout(saveVM, revision string, before map[string]any) {
	s.Helper()
	s.must(s.kubectl("", "delete", "vm", "demo", "--timeout=60s"))
	s.eventually("the VMI is gone", func() bool { return !s.exists("vmi", "demo") })
	s.eventually("the hardware goes with its guest", func() bool { return !s.exists("guesthardware", "demo") })
	s.must(s.kubectl("", "delete", "controllerrevision", "--all", writer))
	s.eventually("the webhook has seen that they are gone, and warns", func() bool {
		a := s.must(s.kubectl(saveVM, "create", "--dry-run=server", "-f", "-"))
		return strings.Contains(a.stderr, "Warning") && strings.Contains(a.stderr, revision)
	})
	s.create(saveVM)
	s.eventually("the VM has its VMI once more", func() bool { return s.exists("vmi", "demo") })
	after := seen(s.get("vmi", "demo"))
	if after["memory"] != "256Mi" || after["uuid"] != before["uuid"] || after["serial"] == before["serial"] {
		s.Errorf("memory %v, UUID %v, serial %v; want the size's 256Mi, the UUID of before, %v, and the serial of the seed",
			after["memory"], after["uuid"], after["serial"], before["uuid"])
	}
}
