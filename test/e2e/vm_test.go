package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const pinsAnnotation = "kilnvm.io/pins"

// pins returns the pins of the objects that the VM names. The pins of presets and of the configuration come a moment later.
func pins(t *testing.T, object *unstructured.Unstructured) map[string]string {
	t.Helper()
	var all map[string]any
	text := object.GetAnnotations()[pinsAnnotation]
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("pins '%s': %v", text, err)
	}
	found := map[string]string{}
	for _, key := range []string{"instancetype", "preference"} {
		if name, pinned := all[key].(string); pinned {
			found[key] = name
		}
	}
	return found
}

// named selects the revisions of what VMs name.
const named = "instancetype.kubevirt.io/object-kind in (virtualmachineclusterinstancetype,virtualmachineclusterpreference)"

// running makes a VM of a manifest start.
var running = []string{"runStrategy: Halted", "runStrategy: Always"}

func TestVMIsExpandedTransparently(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo", running...))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	created, guest := s.get("vm", "demo"), s.get("vmi", "demo")

	for name, revision := range pins(t, created) {
		if !s.exists("controllerrevision", revision) {
			t.Errorf("the %s is pinned to '%s', which does not exist", name, revision)
		}
	}
	if diff := cmp.Diff(pins(t, created), pins(t, guest)); diff != "" {
		t.Errorf("the VMI has other pins than its VM:\n%s", diff)
	}
	for path, want := range map[string]any{
		"spec.architecture":        "amd64",
		"spec.domain.cpu.sockets":  int64(2),
		"spec.domain.cpu.cores":    int64(1),
		"spec.domain.cpu.model":    "host-model",
		"spec.domain.machine.type": "q35",
		"spec.domain.memory.guest": "512Mi",
		"spec.evictionStrategy":    "None",
	} {
		if field(guest, strings.Split(path, ".")...) != want {
			t.Errorf("the VMI's %s is %v, want %v", path, field(guest, strings.Split(path, ".")...), want)
		}
	}
	disks := field(guest, "spec", "domain", "devices", "disks").([]any)
	if bus := disks[0].(map[string]any)["disk"].(map[string]any)["bus"]; bus != "virtio" {
		t.Errorf("the disk's bus is %v, want the preference's virtio", bus)
	}
	if owner := guest.GetOwnerReferences(); len(owner) != 1 || owner[0].UID != created.GetUID() {
		t.Errorf("the VMI's owners are %v, want the VM alone", owner)
	}
	if field(guest, "spec", "domain", "firmware", "uuid") == nil {
		t.Error("the VMI has no firmware UUID")
	}
}

func TestTwoVMsShareOneRevision(t *testing.T) {
	s := newSpace(t)
	s.create(vm("one"))
	s.create(vm("two"))
	if diff := cmp.Diff(pins(t, s.get("vm", "one")), pins(t, s.get("vm", "two"))); diff != "" {
		t.Errorf("two VMs of one size have different pins:\n%s", diff)
	}
	if found := s.list("controllerrevision", named); len(found) != 2 {
		t.Errorf("%d revisions for two VMs of one size and preference, want 2", len(found))
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	s := newSpace(t)
	dry := s.must(s.kubectl(vm("demo"), "create", "--dry-run=server", "-o", "json", "-f", "-")).stdout
	if left := append(s.list("vm", ""), s.list("controllerrevision", "")...); len(left) != 0 {
		t.Errorf("a dry run left %d objects", len(left))
	}
	real := s.must(s.kubectl(vm("demo"), "create", "-o", "json", "-f", "-")).stdout
	var first, second unstructured.Unstructured
	for text, into := range map[string]*unstructured.Unstructured{dry: &first, real: &second} {
		if err := into.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(pins(t, &first), pins(t, &second)); diff != "" {
		t.Errorf("the dry run answers otherwise than the real one:\n%s", diff)
	}
}

func TestTheSpecReadsBackAsApplied(t *testing.T) {
	s := newSpace(t)
	manifest := vm("demo", running...)
	s.must(s.kubectl(manifest, "apply", "-f", "-"))
	s.eventually("the controller has seen the VM", func() bool { return s.exists("vmi", "demo") })
	s.must(s.kubectl(manifest, "diff", "-f", "-")) // exits with 1 when there is a difference
	before := pins(t, s.get("vm", "demo"))
	s.must(s.kubectl(manifest, "replace", "-f", "-"))
	if diff := cmp.Diff(before, pins(t, s.get("vm", "demo"))); diff != "" {
		t.Errorf("a replace without the annotation lost the pins:\n%s", diff)
	}
	local := s.must(s.kubectl(manifest, "create", "--dry-run=client", "-o", "json", "-f", "-"))
	var wanted unstructured.Unstructured
	if err := wanted.UnmarshalJSON([]byte(local.stdout)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(field(&wanted, "spec"), field(s.get("vm", "demo"), "spec")); diff != "" {
		t.Errorf("the spec reads back otherwise than it was applied:\n%s", diff)
	}
}

func TestPresetBesideSizeDoesNotConflict(t *testing.T) {
	s := newSpace(t)
	s.create(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstancePreset","metadata":{"name":"big"},
		"spec":{"selector":{"matchLabels":{"tier":"web"}},"domain":{"cpu":{"cores":8},"devices":{"watchdog":{"name":"dog","i6300esb":{}}}}}}`)
	s.create(vm("demo", append(running, "template:\n    spec:", "template:\n    metadata: {labels: {tier: web}}\n    spec:")...))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	guest := s.get("vmi", "demo")
	if sockets, cores := field(guest, "spec", "domain", "cpu", "sockets"), field(guest, "spec", "domain", "cpu", "cores"); sockets != int64(2) ||
		cores != int64(1) {
		t.Errorf("the VMI has %v sockets of %v cores; the size's 2 of 1 win over the preset", sockets, cores)
	}
	if field(guest, "spec", "domain", "devices", "watchdog", "i6300esb", "action") != "reset" {
		t.Error("the preset's watchdog, which nobody else sets, is missing")
	}
}

func TestConflictIsRefusedWithEveryCause(t *testing.T) {
	s := newSpace(t)
	manifest := vm("demo", "domain:\n",
		"domain:\n        cpu: {cores: 4, model: Haswell}\n        memory: {guest: 2Gi}\n        resources: {requests: {memory: 3Gi}}\n")
	refused := s.kubectl(manifest, "create", "-f", "-")
	if refused.err == nil {
		t.Fatal("a VM that sets what its size sets was admitted")
	}
	for _, want := range []string{
		"spec.template.spec.domain.cpu.cores: Invalid value: 4", "spec.template.spec.domain.memory.guest: Invalid value: \"2Gi\"",
		"spec.template.spec.domain.resources.requests.memory: Invalid value: \"3Gi\"", "sets '512Mi'", "sets '2 vCPUs'",
		"VirtualMachineClusterInstancetype 'small'", "remove the field", "choose an instancetype",
	} {
		if !strings.Contains(refused.stderr, want) {
			t.Errorf("the refusal does not contain %q", want)
		}
	}
	if strings.Contains(refused.stderr, "cpu.model") {
		t.Error("the size does not set the CPU's model, so it is no conflict")
	}
	if t.Failed() {
		t.Log(refused.stderr)
	}
	object := s.must(s.kubectl(manifest, "create", "--dry-run=client", "-o", "json", "-f", "-")).stdout
	result := s.post("/validate/virtualmachines", []byte(object)).Result
	if result == nil || result.Code != 422 || result.Reason != "Invalid" || result.Details == nil || len(result.Details.Causes) != 3 {
		t.Errorf("the webhook answers %+v, want 422 Invalid with three causes", result)
	}
}

func TestUnknownSizeIsAdmittedWithAWarning(t *testing.T) {
	s := newSpace(t)
	admitted := s.must(s.kubectl(vm("demo", append(running, "name: small", "name: nowhere")...), "create", "-f", "-"))
	if !strings.Contains(admitted.stderr, "Warning") || !strings.Contains(admitted.stderr, "'nowhere'") {
		t.Errorf("no warning names the size: %s", admitted.stderr)
	}
	if s.exists("vmi", "demo") {
		t.Error("a guest without its size was started")
	}
}

func TestOldVersionWorks(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo", append(running, "kubevirt.io/v1\n", "kubevirt.io/v1alpha3\n")...))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	if len(pins(t, s.get("vm", "demo"))) != 2 {
		t.Error("a VM of v1alpha3 is not pinned")
	}
	const preset = `{"apiVersion":"kubevirt.io/v1alpha3","kind":"VirtualMachineInstancePreset","metadata":{"name":"old"},
		"spec":{"selector":{"matchLabels":{"old":"yes"}},"domain":{"cpu":{"cores":3},"devices":{}}}}`
	s.create(preset)
	const bare = `{"apiVersion":"kubevirt.io/v1alpha3","kind":"VirtualMachineInstance","metadata":{"name":"bare","labels":{"old":"yes"}},
		"spec":{"nodeSelector":{"machine":"none"},"domain":{"memory":{"guest":"64Mi"},"devices":{}}}}`
	s.eventually("the webhook knows the preset", func() bool {
		a := s.must(s.kubectl(bare, "create", "--dry-run=server", "-o", "jsonpath={.spec.domain.cpu.cores}", "-f", "-"))
		return a.stdout == "3"
	})
	s.create(bare)
	if machine := field(s.get("vmi", "bare"), "spec", "domain", "machine", "type"); machine != "q35" {
		t.Errorf("a VMI of v1alpha3 has machine '%v', want q35", machine)
	}
}

func TestDeletionLeavesNothing(t *testing.T) {
	s := newSpace(t)
	s.create(`{"apiVersion":"instancetype.kubevirt.io/v1beta1","kind":"VirtualMachineInstancetype","metadata":{"name":"own"},
		"spec":{"cpu":{"guest":1},"memory":{"guest":"128Mi"}}}`)
	s.create(vm("demo", append(running, "{name: small}", "{name: own, kind: VirtualMachineInstancetype}")...))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	s.must(s.kubectl("", "delete", "virtualmachineinstancetype", "own")) // deleting needs no catalog
	s.must(s.kubectl("", "delete", "vm", "demo", "--timeout=60s"))
	s.eventually("the VMI is gone", func() bool { return !s.exists("vmi", "demo") })
	s.must(s.kubectl("", "delete", "namespace", s.name, "--timeout=90s"))
}

func TestWrongManifestsGetClearErrors(t *testing.T) {
	s := newSpace(t)
	for _, test := range []struct{ name, manifest, want string }{
		{"unknown field", vm("demo", "domain:\n", "domain:\n        cpus: 2\n"), `unknown field "spec.template.spec.domain.cpus"`},
		{"wrong type", vm("demo", "capacity: 1Gi", "capacity: lots"), "spec.template.spec.volumes[0].emptyDisk.capacity"},
		{"no template", "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: demo}\nspec: {runStrategy: Halted}\n", "template"},
	} {
		if refused := s.kubectl(test.manifest, "create", "-f", "-"); refused.err == nil || !strings.Contains(refused.stderr, test.want) {
			t.Errorf("%s: want an error with %q, got %v\n%s", test.name, test.want, refused.err, refused.stderr)
		}
	}
	if left := fmt.Sprint(s.list("vm", "")); left != "[]" {
		t.Errorf("something was stored: %s", left)
	}
}
