package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// velero is the account of the tool, and its entry in the list of accounts that may write revisions.
const velero = "system:serviceaccount:velero:velero"

// Velero's order: these resources first, by pkg/cmd/server/config of Velero 1.17, then all others by 'resource.group'. It creates each object without status,
// owner references, UID and other metadata of the API server, and with two labels (pkg/restore, resetMetadata and addRestoreLabels).
var first = []string{"namespaces", "persistentvolumes", "persistentvolumeclaims", "serviceaccounts", "secrets", "configmaps", "limitranges", "pods",
	"replicasets.apps", "endpoints", "services"}

// excluded are the resources that docs/how-to/upgrade.md leaves out of a restore, and objects that each namespace has.
var excluded = sets.New("pods", "virtualmachineinstances.kubevirt.io", "guestpods.kilnvm.io", "events", "events.events.k8s.io",
	"serviceaccounts/default", "configmaps/kube-root-ca.crt")

// saved is a namespace as Velero stores it: objects by 'resource.group'.
type saved map[string][]unstructured.Unstructured

// save reads all objects of a namespace, of every kind that the API server can list.
func (s space) save() saved {
	s.Helper()
	all := saved{}
	for _, resource := range strings.Fields(s.must(s.kubectl("", "api-resources", "--namespaced", "--verbs=list", "-o", "name")).stdout) {
		var list unstructured.UnstructuredList
		if err := json.Unmarshal([]byte(s.must(s.kubectl("", "get", resource, "-o", "json")).stdout), &list); err != nil {
			s.Fatal(err)
		}
		if len(list.Items) > 0 {
			all[resource] = list.Items
		}
	}
	return all
}

// restoreAll creates the objects in Velero's order, except objects of some resources. It returns the errors of the API server.
func (s space) restoreAll(all saved, without ...string) string {
	s.Helper()
	resources := slices.SortedFunc(func(yield func(string) bool) {
		for resource := range all {
			if !yield(resource) {
				return
			}
		}
	}, func(a, b string) int {
		rank := func(resource string) int {
			if at := slices.Index(first, resource); at >= 0 {
				return at
			}
			return len(first)
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	var out bytes.Buffer
	for _, resource := range resources {
		if excluded.Has(resource) || slices.Contains(without, resource) {
			continue
		}
		for _, object := range all[resource] {
			if excluded.Has(resource + "/" + object.GetName()) {
				continue
			}
			object = *object.DeepCopy()
			for _, reset := range []string{"generateName", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
				"deletionGracePeriodSeconds", "ownerReferences", "managedFields"} {
				unstructured.RemoveNestedField(object.Object, "metadata", reset)
			}
			unstructured.RemoveNestedField(object.Object, "status")
			object.SetNamespace(s.name)
			labels := object.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels["velero.io/backup-name"], labels["velero.io/restore-name"] = "nightly", "nightly-1"
			object.SetLabels(labels)
			fmt.Fprintf(&out, "---\n%s\n", mustJSON(s.T, &object))
		}
	}
	var errs []string
	for line := range strings.Lines(s.kubectl(out.String(), "create", "-f", "-", "--as="+velero).stderr) {
		if !strings.HasPrefix(line, "Warning: ") { // Velero does not show them
			errs = append(errs, line)
		}
	}
	return strings.Join(errs, "")
}

// veleroMay gives Velero's account the rights that it has by default, and Kiln's permission to write revisions.
func (s space) veleroMay() {
	s.Helper()
	s.must(s.kubectl("", "create", "clusterrolebinding", "velero", "--clusterrole=cluster-admin", "--serviceaccount=velero:velero"))
	lines := s.must(s.kubectl("", "get", "configmap", "kiln-revision-writers", "-n", "kiln-system", "-o", "jsonpath={.data.writers}")).stdout
	patch := mustJSON(s.T, &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"writers": lines + velero + "\n"}}})
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
