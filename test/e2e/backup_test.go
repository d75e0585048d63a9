package e2e

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kilnvm/kiln/test/velero"
)

// excluded are the resources that docs/how-to/upgrade.md leaves out of a restore.
var excluded = []string{"pods", "virtualmachineinstances.kubevirt.io", "guestpods.kilnvm.io"}

// save reads all objects of the namespace.
func (s space) save() velero.Backup {
	s.Helper()
	all, err := velero.Save(func(args ...string) (string, error) {
		out := s.kubectl("", args...)
		return out.stdout, out.err
	})
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// restoreAll creates the objects in Velero's order, except objects of some resources. It returns the errors of the API server.
func (s space) restoreAll(all velero.Backup, without ...string) string {
	s.Helper()
	text, err := all.Manifest(s.name, slices.Concat(excluded, without)...)
	if err != nil {
		s.Fatal(err)
	}
	return velero.Errors(s.kubectl(text, "create", "-f", "-", "--as="+velero.Account).stderr)
}

// veleroMay gives Velero's account the rights that it has by default, and Kiln's permission to write revisions.
func (s space) veleroMay() {
	s.Helper()
	s.must(s.kubectl("", "create", "clusterrolebinding", "velero", "--clusterrole=cluster-admin", "--serviceaccount=velero:velero"))
	lines := s.must(s.kubectl("", "get", "configmap", "kiln-revision-writers", "-n", "kiln-system", "-o", "jsonpath={.data.writers}")).stdout
	patch := mustJSON(s.T, &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"writers": lines + velero.Account + "\n"}}})
	s.must(s.kubectl("", "patch", "configmap", "kiln-revision-writers", "-n", "kiln-system", "--type=merge", "-p", patch))
}

// guestOf is what a guest is: what it was pinned to, its VMI, and its record. The generation ID of a restored guest differs, and has to.
func (s space) guestOf(name string) map[string]any {
	s.Helper()
	vm, vmi := s.get("vm", name), s.get("vmi", name)
	return map[string]any{
		"pins": vm.GetAnnotations()[pinsAnnotation], "identity": vm.GetAnnotations()["kilnvm.io/identity"],
		"vmi": vmi.Object["spec"], "vmi pins": vmi.GetAnnotations()[pinsAnnotation], "hardware": s.get("guesthardware", name).Object["spec"],
	}
}

// TestBackupInVelerosOrder: a namespace with a VM that has each kind of pin and a record comes back in another cluster, with other UIDs and without statuses,
// in the order in which Velero creates objects. The same guest comes back without the objects that its revisions were made of.
func TestBackupInVelerosOrder(t *testing.T) {
	s := newSpace(t)
	s.furnish()
	s.create(size("own", 1, "128Mi"))
	s.apply("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstancePreset, metadata: {name: dog}, spec: {selector: {matchLabels: {app: web}}, " +
		"domain: {clock: {timer: {hpet: {present: false}}}}}}")
	s.create(web("demo", "{name: small}", "{name: own, kind: VirtualMachineInstancetype}"))
	s.eventually("the VM is pinned and has its VMI", func() bool {
		return s.exists("vmi", "demo") && strings.Contains(s.get("vm", "demo").GetAnnotations()[pinsAnnotation], "configuration")
	})
	s.claim("demo")
	s.must(s.kubectl("", "patch", "guesthardware", "demo", "--type=merge", "-p="+booted))
	s.restart("demo") // with what is recorded
	was, saved := s.guestOf("demo"), s.save()
	if pins := allPins(t, s.get("vm", "demo")); pins.Instancetype == "" || pins.Preference == "" || len(pins.Presets) != 1 || len(pins.Profiles) != 3 {
		t.Fatalf("pins %+v", pins)
	}

	other := newAlone(t).space()
	other.veleroMay()
	if one, two := s.must(s.kubectl("", "get", "ns", "kube-system", "-o", "jsonpath={.metadata.uid}")).stdout,
		other.must(other.kubectl("", "get", "ns", "kube-system", "-o", "jsonpath={.metadata.uid}")).stdout; one == two {
		t.Fatalf("the cluster %s is the same", one)
	}
	restored := func(name string, without ...string) (space, string) {
		if err := other.on.MakeNamespace(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		in := space{T: t, on: other.on, name: name}
		return in, in.restoreAll(saved, without...)
	}
	same := func(in space, errs, what string) {
		t.Helper()
		if errs != "" {
			t.Errorf("%s: %s", what, errs)
		}
		in.eventually("the VM has its VMI", func() bool { return in.exists("vmi", "demo") })
		in.claim("demo")
		if diff := gocmp.Diff(was, in.guestOf("demo")); diff != "" {
			t.Errorf("%s: another guest (-saved +restored):\n%s", what, diff)
		}
		if text := in.lostPins(); text != "" {
			t.Errorf("%s: %s", what, text)
		}
	}
	in, errs := restored(s.name)
	same(in, errs, "the whole backup")
	in, errs = restored("without-sources", "virtualmachineinstancetypes.instancetype.kubevirt.io", "virtualmachineinstancepresets.kubevirt.io",
		"guestprofiles.kilnvm.io")
	same(in, errs, "without what the revisions were made of")
}

// lostPins is the message of condition PinsLost.
func (s space) lostPins() string {
	s.Helper()
	return s.read("vm", "demo", `{.status.conditions[?(@.type=="PinsLost")].message}`).stdout
}
