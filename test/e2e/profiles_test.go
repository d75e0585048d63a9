package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// clusterProfile is a ClusterGuestProfile for the namespaces with label profiled=NAMESPACE, which the profiles of no other test select.
func (s space) clusterProfile(name, spec string) {
	s.Helper()
	s.must(s.kubectl("", "label", "namespace", s.name, "profiled="+s.name, "--overwrite"))
	s.must(s.kubectl("{apiVersion: kilnvm.io/v1alpha1, kind: ClusterGuestProfile, metadata: {name: "+s.name+name+"}, spec: {namespaceSelector: "+
		"{matchLabels: {profiled: "+s.name+"}}, "+spec+"}}", "apply", "-f", "-"))
	s.Cleanup(func() { s.kubectlAfter("delete", "clusterguestprofile", s.name+name, "--ignore-not-found") })
}

func (s space) profile(name, spec string) {
	s.Helper()
	s.must(s.kubectl("{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: "+name+"}, spec: {"+spec+"}}", "apply", "-f", "-"))
}

// threads is the rest of a profile's spec that fills ioThreadsPolicy.
func threads(policy string) string {
	return "template: {spec: {domain: {ioThreadsPolicy: " + policy + "}}}"
}

// filled is what profiles of these tests fill.
type filled struct{ Threads, Watchdog, From any }

func filledIn(guest *unstructured.Unstructured) filled {
	return filled{
		Threads:  field(guest, "spec", "domain", "ioThreadsPolicy"),
		Watchdog: field(guest, "spec", "domain", "devices", "watchdog", "i6300esb", "action"),
		From:     field(guest, "metadata", "labels", "from"),
	}
}

// furnish writes profiles that select VMIs with label app=web: one of the namespace, which extends one of the cluster without a selector, and one of the
// cluster that may be excluded. It waits until both replicas of the webhook fill them.
func (s space) furnish() {
	s.Helper()
	s.clusterProfile("-base", threads("auto"))
	s.clusterProfile("-all", "allowExclusion: true, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {from: all}}}")
	s.profile("web", "selector: {matchLabels: {app: web}}, extends: [{kind: ClusterGuestProfile, name: "+s.name+"-base}], "+
		"template: {spec: {domain: {devices: {watchdog: {name: dog, i6300esb: {action: poweroff}}}}}}")
	s.eventually("both replicas of the webhook know the profiles", func() bool {
		for range 8 {
			if cmp.Diff(fully, filledIn(s.drySent("{app: web}", "{}"))) != "" {
				return false
			}
		}
		return true
	})
	s.eventually("the controller has judged them", func() bool {
		return field(s.get("clusterguestprofile", s.name+"-base"), "status", "conditions") != nil &&
			field(s.get("guestprofile", "web"), "status", "conditions") != nil
	})
}

// fully is what a VMI gets from all of them.
var fully = filled{"auto", "poweroff", "all"}

// drySent is a bare VMI after admission.
func (s space) drySent(labels, annotations string) *unstructured.Unstructured {
	s.Helper()
	bare := parse(s.T, "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: bare, labels: "+labels+", annotations: "+annotations+
		"}, spec: {domain: {memory: {guest: 128Mi}, devices: {}}}}")
	object, err := s.on.WouldCreate(s.Context(), s.in("vmi"), bare)
	if err != nil {
		s.Fatal(err)
	}
	return object
}

// web is a VM that runs and has label app=web.
func web(name string, changes ...string) string {
	return vm(name, append(append([]string{"  template:\n", "  template:\n    metadata: {labels: {app: web}}\n"}, running...), changes...)...)
}

// restarted deletes the VMI of a VM, and returns the next one.
func (s space) restarted(name string) *unstructured.Unstructured {
	s.Helper()
	s.restart(name)
	return s.get("vmi", name)
}

// allPins are the pins of a VM.
func allPins(t *testing.T, object *unstructured.Unstructured) (pins v1alpha1.Pins) {
	t.Helper()
	if err := json.Unmarshal([]byte(object.GetAnnotations()[v1alpha1.AnnotationPins]), &pins); err != nil {
		t.Fatal(err)
	}
	return pins
}

// TestProfilesArePinned: a new VM gets the profiles that select it. Then they are edited and deleted, and the VM stays as it was until it is repinned.
func TestProfilesArePinned(t *testing.T) {
	s := newSpace(t)
	s.create(web("before"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "before") })
	s.furnish()
	s.create(web("demo"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	same := func(when, name string, want filled) {
		t.Helper()
		if diff := cmp.Diff(want, filledIn(s.restarted(name))); diff != "" {
			t.Errorf("%s: (-want +VMI)\n%s", when, diff)
		}
	}
	if diff := cmp.Diff(fully, filledIn(s.get("vmi", "demo"))); diff != "" {
		t.Fatalf("a new VM (-want +VMI):\n%s", diff)
	}
	first := allPins(t, s.get("vm", "demo"))
	if len(first.Profiles) != 3 || len(first.Bases) > 0 || !cmp.Equal(first, allPins(t, s.get("vmi", "demo"))) {
		t.Errorf("pins %+v, pins of the VMI %+v", first, allPins(t, s.get("vmi", "demo")))
	}
	for _, name := range first.Profiles {
		if u := s.usages()[name]; u.State != "current" || !cmp.Equal(u.VirtualMachines, []string{"demo"}) || !strings.HasSuffix(u.Kind, "GuestProfile") {
			t.Errorf("revision '%s': %+v", name, u)
		}
	}
	same("a VM that was there before the profiles", "before", filled{})
	explained := s.must(s.kiln("explain", "vmi/demo")).stdout
	if !strings.Contains(explained, "GuestProfile web@web-") || !strings.Contains(explained, "which extends ClusterGuestProfile "+s.name+"-base@") {
		t.Errorf("explain names no profiles:\n%s", explained)
	}

	s.clusterProfile("-base", threads("shared"))
	s.must(s.kubectl("", "delete", "clusterguestprofile", s.name+"-all"))
	s.eventually("the webhook knows of both", func() bool { return filledIn(s.drySent("{app: web}", "{}")) == filled{"shared", "poweroff", nil} })
	same("the base was edited, and another profile deleted", "demo", fully)
	states := map[string]int{}
	for _, u := range s.usages() {
		states[u.Kind+" "+u.State]++
	}
	if states["ClusterGuestProfile outdated"] != 1 || states["ClusterGuestProfile gone"] != 1 || states["GuestProfile current"] != 1 {
		t.Errorf("revisions %v", states)
	}
	dry := s.must(s.kiln("repin", "vm/demo", "--profiles", "--dry-run"))
	if !strings.Contains(dry.stdout, "  profiles: "+strings.Join(first.Profiles, ",")+" -> ") || !cmp.Equal(first, allPins(t, s.get("vm", "demo"))) {
		t.Errorf("the dry run says\n%s\nand the pins are %+v", dry.stdout, allPins(t, s.get("vm", "demo")))
	}
	s.must(s.kiln("repin", "vm/demo", "--profiles"))
	same("repinned", "demo", filled{"shared", "poweroff", nil})
	s.must(s.kiln("repin", "vm/before"))
	same("the old VM, repinned", "before", filled{"shared", "poweroff", nil})
	s.must(s.kubectl("", "delete", "guestprofile", "web"))
	same("the last profile was deleted", "demo", filled{"shared", "poweroff", nil})
}

// TestExcludedFromProfiles: the annotation keeps away what allows it, from bare VMIs and from VMs.
func TestExcludedFromProfiles(t *testing.T) {
	s := newSpace(t)
	s.furnish()
	const exclude = `{"virtualmachineinstancepresets.admission.kubevirt.io/exclude": "true"}`
	want := filled{"auto", "poweroff", nil}
	if diff := cmp.Diff(want, filledIn(s.drySent("{app: web}", exclude))); diff != "" {
		t.Errorf("a bare VMI (-want +VMI):\n%s", diff)
	}
	if diff := cmp.Diff(filled{}, filledIn(s.drySent("{app: db}", "{}"))); diff != "" {
		t.Errorf("a VMI with another label (-want +VMI):\n%s", diff)
	}
	s.create(web("demo", "metadata: {labels: {app: web}}", "metadata: {labels: {app: web}, annotations: "+exclude+"}"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	if diff := cmp.Diff(want, filledIn(s.get("vmi", "demo"))); diff != "" || len(allPins(t, s.get("vm", "demo")).Profiles) != 2 {
		t.Errorf("pins %+v (-want +VMI):\n%s", allPins(t, s.get("vm", "demo")), diff)
	}
	s.must(s.kubectl("", "label", "namespace", s.name, "profiled-"))
	s.eventually("the webhook knows the label of the namespace", func() bool { return filledIn(s.drySent("{app: web}", "{}")) == filled{"auto", "poweroff", nil} })
	if diff := cmp.Diff(want, filledIn(s.restarted("demo"))); diff != "" {
		t.Errorf("the namespace has lost its label, and the pinned VM changes (-want +VMI):\n%s", diff)
	}
}
