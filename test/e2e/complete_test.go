package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	identityAnnotation = "kilnvm.io/identity"
	webPreset          = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\nmetadata: {name: web}\n" +
		"spec: {selector: {matchLabels: {tier: web}}, domain: {ioThreadsPolicy: auto}}\n"
)

// ofTier is a change of a VM's manifest: its VMI gets a label.
func ofTier(tier string) []string {
	return []string{"  template:\n    spec:", "  template:\n    metadata: {labels: {tier: " + tier + "}}\n    spec:"}
}

// warm creates a VM for whose namespace the controller writes all revisions, and waits until both replicas of the webhook know them: then a dry run is
// pinned to all, whichever replica answers.
func (s space) warm(changes ...string) {
	s.Helper()
	s.create(vm("first", changes...))
	known := 0
	s.eventually("admission pins new VMs to everything", func() bool {
		dry := s.must(s.kubectl(vm("dry", changes...), "create", "--dry-run=server", "-o", "json", "-f", "-"))
		if strings.Contains(parse(s.T, dry.stdout).GetAnnotations()[pinsAnnotation], `"configuration":`) {
			known++
		} else {
			known = 0
		}
		return known >= 6 // the replicas take turns
	})
}

// reads are the annotations of a VM that admission writes, and by whom fields were written.
func (s space) reads(name string) (identity, pinned, managers string) {
	s.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(s.must(s.kubectl("", "get", "vm", name, "-o", "json", "--show-managed-fields")).stdout)); err != nil {
		s.Fatal(err)
	}
	for _, entry := range object.GetManagedFields() {
		managers += entry.Manager + " "
		if entry.Subresource == "" && strings.Contains(fmt.Sprint(entry.FieldsV1), pinsAnnotation) {
			managers += "(pins) "
		}
	}
	return object.GetAnnotations()[identityAnnotation], object.GetAnnotations()[pinsAnnotation], managers
}

// TestNewVMIsCompleteWhenAdmitted: identity and pins stand in the answer to the create, and nobody writes them later.
func TestNewVMIsCompleteWhenAdmitted(t *testing.T) {
	s := newSpace(t)
	s.create(webPreset)
	s.warm(ofTier("web")...)
	created := parse(t, s.must(s.kubectl(vm("second", ofTier("web")...), "create", "-o", "json", "-f", "-")).stdout)
	identity, pinned := created.GetAnnotations()[identityAnnotation], created.GetAnnotations()[pinsAnnotation]
	for _, key := range []string{`"instancetype":"`, `"preference":"`, `"presets":["web-`, `"configuration":"configuration-`} {
		if !strings.Contains(pinned, key) {
			t.Errorf("the answer has no %s: %s", key, pinned)
		}
	}
	if identity == "" || identity == string(created.GetUID()) {
		t.Errorf("identity '%s', UID '%s': want the UID of the request", identity, created.GetUID())
	}
	s.eventually("the controller reports the VM", func() bool {
		return s.must(s.read("vm", "second", "{.status.printableStatus}")).stdout == "Stopped"
	})
	if is, pins, managers := s.reads("second"); is != identity || pins != pinned || strings.Contains(managers, "controller (pins)") {
		t.Errorf("identity '%s', pins '%s' by %s; want '%s', '%s' as they were admitted", is, pins, managers, identity, pinned)
	}
	first, pins, _ := s.reads("first")
	if first == "" || first == identity || pins != pinned {
		t.Errorf("the VM that the controller completed has identity '%s', pins '%s'; the other '%s', '%s'", first, pins, identity, pinned)
	}
	dry := parse(t, s.must(s.kubectl(vm("third", ofTier("web")...), "create", "--dry-run=server", "-o", "json", "-f", "-")).stdout)
	if got := dry.GetAnnotations(); got[identityAnnotation] != "" || got[pinsAnnotation] != pinned {
		t.Errorf("a dry run says %v, want the same pins and no identity", got)
	}
}

// TestRequestsForANewVM: in an installation that has seen a VM of the same kind before, Kiln's accounts write nothing but the status of a new VM, once. What
// a VM that runs takes beside that is listed too.
func TestRequestsForANewVM(t *testing.T) {
	s := newSpace(t)
	s.warm()
	for _, test := range []struct {
		name, status string
		changes      []string
		want         []string
	}{
		{"halted", "Stopped", nil, []string{"kiln-controller patch virtualmachines/status"}},
		{"always", "Starting", running, []string{
			"kiln-controller create events", "kiln-controller create virtualmachineinstances", "kiln-controller get guesthardwares (404)",
			"kiln-controller get virtualmachines", "kiln-controller patch virtualmachineinstances/status", "kiln-controller patch virtualmachines/status"}},
	} {
		s.create(vm(test.name, test.changes...))
		s.eventually("the controller has done its work", func() bool {
			is := s.must(s.read("vm", test.name, "{.status.printableStatus}")).stdout
			phase := s.read("vmi", test.name, "{.status.phase}").stdout
			return is == test.status && (test.status == "Stopped" || phase == "Pending")
		})
		s.create(vm("after-" + test.name)) // what was to come of the first has come when the second is done
		s.eventually("another VM is seen", func() bool {
			return s.must(s.read("vm", "after-"+test.name, "{.status.printableStatus}")).stdout == "Stopped"
		})
		got, err := s.on.About(s.name, test.name)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.name, diff)
		}
		t.Logf("%s: %d requests beside its create: %s", test.name, len(got), strings.Join(got, ", "))
	}
}

// TestRestoredVMKeepsItsIdentity: what a VM brings from a backup or from Git stays, and a manifest of Git without it does not take it away.
func TestRestoredVMKeepsItsIdentity(t *testing.T) {
	s := newSpace(t)
	s.warm(ofTier("web")...)
	identity, pinned, _ := s.reads("first")
	s.must(s.kubectl("", "delete", "vm", "first"))
	s.create(webPreset) // for VMs that come later
	s.eventually("new VMs get the preset", func() bool {
		dry := s.must(s.kubectl(vm("dry", ofTier("web")...), "create", "--dry-run=server", "-o", "json", "-f", "-"))
		return !strings.Contains(parse(t, dry.stdout).GetAnnotations()[pinsAnnotation], `"presets":[]`)
	})
	annotations := fmt.Sprintf("metadata: {name: first, annotations: {%s: %s, %s: '%s'}}", identityAnnotation, identity, pinsAnnotation, pinned)
	restored := append([]string{"metadata: {name: first}", annotations}, ofTier("web")...)
	s.create(vm("first", restored...))
	same := func(why string) {
		t.Helper()
		if is, pins, _ := s.reads("first"); is != identity || pins != pinned {
			t.Errorf("%s: identity '%s', pins '%s'; want '%s', '%s'", why, is, pins, identity, pinned)
		}
	}
	same("restored")
	s.must(s.kubectl(vm("first", ofTier("web")...), "apply", "--server-side", "--force-conflicts", "-f", "-"))
	same("applied from Git")
	s.must(s.kubectl(vm("first", ofTier("web")...), "replace", "-f", "-"))
	same("replaced from Git")
}

// TestLabelsOfALaterWebhookSelect: a webhook behind ours labels the VMI of a new VM. The VM gets what these labels select, though ours has pinned it before.
func TestLabelsOfALaterWebhookSelect(t *testing.T) {
	s := newSpace(t)
	s.create(webPreset)
	s.warm(ofTier("web")...)
	n := newNeighbour(s)
	n.patch(`[{"op":"add","path":"/metadata/labels","value":{"neighbour":"was-here"}},` +
		`{"op":"add","path":"/spec/template/metadata","value":{"labels":{"tier":"web"}}}]`)
	s.create(vm("late"))
	first := n.calls("VirtualMachine", "late")
	if len(first) == 0 || first[0].labelled {
		t.Fatalf("our webhook was not asked before the neighbour: %v", first)
	}
	identity, pinned, managers := s.reads("late")
	if !strings.Contains(pinned, `"presets":["web-`) || identity == "" || strings.Contains(managers, "controller (pins)") {
		t.Errorf("identity '%s', pins '%s' by %s; want the preset of the label, pinned by admission", identity, pinned, managers)
	}
}
