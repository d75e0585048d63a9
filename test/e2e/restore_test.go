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

// booted is a record as the launcher leaves it, with the keys as the API server orders them.
const booted = `kilnvm.io/frontend={"devices":{"disk.data":{"pci":"0000:0b:00.0"}},"machine":"pc-q35-7.2"}`

// A backup of a VM and of the revisions that it is pinned to brings the same guest back, although its size has changed since.
func TestRestoreBringsTheSameGuestBack(t *testing.T) {
	s := newSpace(t)
	s.must(s.kubectl(size("own", 1, "128Mi"), "create", "-f", "-"))
	guest := vm("demo", append(running, "{name: small}", "{name: own, kind: VirtualMachineInstancetype}")...)
	s.must(s.kubectl(guest, "create", "-f", "-"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	before := seen(s.get("vmi", "demo"))
	s.must(s.kubectl("", "annotate", "vmi", "demo", booted, "--as=system:serviceaccount:kiln-system:kiln-controller")) // in the place of a launcher
	s.eventually("the hardware is on record", func() bool { return len(s.list("controllerrevision", "-l", "kilnvm.io/frontend-of")) == 1 })
	saved := s.get("vm", "demo")
	was := pins(t, saved)
	saveVM := backup(t, saved)
	var saveRevisions []string
	for _, revision := range append(s.list("controllerrevision", "-l", "instancetype.kubevirt.io/object-kind"),
		s.list("controllerrevision", "-l", "kilnvm.io/frontend-of")...) {
		saveRevisions = append(saveRevisions, backup(t, &revision))
	}

	s.must(s.kubectl("", "delete", "vm", "demo", "--timeout=60s"))
	s.eventually("the VMI is gone", func() bool { return !s.exists("vmi", "demo") })
	s.must(s.kubectl("", "delete", "controllerrevision", "--all", writer))
	s.must(s.kubectl(size("own", 2, "256Mi"), "replace", "-f", "-"))

	for _, revision := range saveRevisions {
		s.must(s.kubectl(revision, "create", "-f", "-", writer))
	}
	s.eventually("the webhook has seen the revisions, and the pins are kept", func() bool {
		a := s.must(s.kubectl(saveVM, "create", "--dry-run=server", "-o", "json", "-f", "-"))
		return a.stderr == ""
	})
	s.must(s.kubectl(saveVM, "create", "-f", "-"))
	if diff := cmp.Diff(was, pins(t, s.get("vm", "demo"))); diff != "" {
		t.Errorf("the restored VM has other pins:\n%s", diff)
	}
	s.eventually("the VM has its VMI again", func() bool { return s.exists("vmi", "demo") })
	if diff := cmp.Diff(before, seen(s.get("vmi", "demo"))); diff != "" {
		t.Errorf("the guest is another one:\n%s", diff)
	}
	if got := "kilnvm.io/frontend=" + s.get("vmi", "demo").GetAnnotations()["kilnvm.io/frontend"]; got != booted {
		t.Errorf("the guest starts with the record '%s', want '%s'", got, booted)
	}
	for _, record := range s.list("controllerrevision", "-l", "kilnvm.io/frontend-of") {
		if owners := record.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != s.get("vm", "demo").GetUID() {
			t.Errorf("the record '%s' belongs to %v, want the restored VM, with which it goes", record.GetName(), owners)
		}
	}

	// Without its revisions a VM takes what its size is now, and says so.
	s.must(s.kubectl("", "delete", "vm", "demo", "--timeout=60s"))
	s.eventually("the VMI is gone", func() bool { return !s.exists("vmi", "demo") })
	s.must(s.kubectl("", "delete", "controllerrevision", "--all", writer))
	s.eventually("the webhook has seen that they are gone, and warns", func() bool {
		a := s.must(s.kubectl(saveVM, "create", "--dry-run=server", "-f", "-"))
		return strings.Contains(a.stderr, "Warning") && strings.Contains(a.stderr, was["instancetype"])
	})
	s.must(s.kubectl(saveVM, "create", "-f", "-"))
	s.eventually("the VM has its VMI once more", func() bool { return s.exists("vmi", "demo") })
	after := seen(s.get("vmi", "demo"))
	if after["memory"] != "256Mi" || after["uuid"] != before["uuid"] {
		t.Errorf("memory %v, UUID %v; want the size's 256Mi and the UUID of before, %v", after["memory"], after["uuid"], before["uuid"])
	}
}
