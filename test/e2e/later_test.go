package e2e

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// lateSize is a namespaced instancetype, and lateImage a claim that recommends it.
const (
	lateSize = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineInstancetype
metadata: {name: late}
spec: {cpu: {guest: 1}, memory: {guest: 128Mi}}
`
	lateImage = `apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: image
  labels:
    instancetype.kubevirt.io/default-instancetype: small
    instancetype.kubevirt.io/default-preference: linux.sample
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`
)

// failure is the message of a VM's Failure condition, empty if it has none.
func failure(vm *unstructured.Unstructured) string {
	conditions, _ := field(vm, "status", "conditions").([]any)
	for _, c := range conditions {
		if condition := c.(map[string]any); condition["type"] == "Failure" {
			return condition["message"].(string)
		}
	}
	return ""
}

func TestSizeThatComesLater(t *testing.T) {
	s := newSpace(t)
	created := s.must(s.kubectl(vm("demo", append(running, "{name: small}", "{name: late, kind: VirtualMachineInstancetype}")...), "create", "-f", "-"))
	if !strings.Contains(created.stderr, "VirtualMachineInstancetype 'late' in namespace") {
		t.Errorf("warnings: %s", created.stderr)
	}
	s.eventually("the VM says what it lacks", func() bool { return strings.Contains(failure(s.get("vm", "demo")), "'late'") })
	s.create(lateSize)
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	if memory := field(s.get("vmi", "demo"), "spec", "domain", "memory", "guest"); memory != "128Mi" {
		t.Errorf("the guest has %v, want the size's 128Mi", memory)
	}
	s.eventually("the VM lacks nothing", func() bool { return failure(s.get("vm", "demo")) == "" })
}

// inferred changes a VM so that its instancetype and preference are inferred from a volume.
var inferred = []string{"{name: small}", "{inferFromVolume: data}", "{name: linux.sample}", "{inferFromVolume: data}"}

func TestVolumeThatComesLater(t *testing.T) {
	s := newSpace(t)
	manifest := vm("demo", append(append(running, inferred...), "emptyDisk: {capacity: 1Gi}", "persistentVolumeClaim: {claimName: image}")...)
	s.must(s.kubectl(manifest, "apply", "-f", "-"))
	s.eventually("the VM says what it lacks", func() bool { return strings.Contains(failure(s.get("vm", "demo")), "PersistentVolumeClaim") })
	s.create(lateImage)
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	guest := s.get("vmi", "demo")
	if field(guest, "spec", "domain", "memory", "guest") != "512Mi" || guest.GetAnnotations()["kubevirt.io/cluster-preference-name"] != "linux.sample" {
		t.Errorf("the guest has not what its volume recommends: %s", mustJSON(t, guest))
	}
	s.must(s.kubectl(manifest, "diff", "-f", "-")) // the reference stays as it was written
	s.must(s.kubectl("", "delete", "pvc", "image", "--wait=false"))
	s.must(s.kubectl("", "label", "vm", "demo", "a=b"))
	s.must(s.kubectl(manifest, "replace", "-f", "-"))
	if len(pins(t, s.get("vm", "demo"))) == 0 {
		t.Error("without its volume the VM lost its pins")
	}
}

// TestInferenceElsewhere: what an image in another namespace recommends is for those who may read it.
func TestInferenceElsewhere(t *testing.T) {
	s := newSpace(t)
	golden := s.name + "-golden"
	s.must(s.kubectl("", "create", "namespace", golden))
	t.Cleanup(func() { s.kubectlAfter("delete", "namespace", golden, "--wait=false") })
	s.must(s.kubectl("", "create", "rolebinding", "ann", "--clusterrole=kiln-edit", "--user=ann"))
	manifest := vm("demo", append(append(running, inferred...), "emptyDisk: {capacity: 1Gi}", "dataVolume: {name: d}",
		"  template:", "  dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {pvc: {name: image, namespace: "+golden+
			"}}, storage: {resources: {requests: {storage: 1Gi}}}}}]\n  template:")...)
	refused := func(when string) {
		t.Helper()
		a := s.kubectl(manifest, "create", "--as=ann", "-f", "-")
		if a.err == nil || !strings.Contains(a.stderr, "spec.instancetype.inferFromVolume: Forbidden") ||
			!strings.Contains(a.stderr, "spec.preference.inferFromVolume: Forbidden") {
			t.Errorf("%s: %v %s", when, a.err, a.stderr)
		}
	}
	refused("nothing is there")
	s.must(s.kubectl(lateImage, "create", "-n", golden, "-f", "-"))
	refused("the image is there")
	s.must(s.kubectl("", "delete", "pvc", "image", "-n", golden, "--wait=false"))
	s.must(s.kubectl("", "patch", "pvc", "image", "-n", golden, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`))
	s.must(s.kubectl("", "create", "role", "reader", "-n", golden, "--verb=get", "--resource=persistentvolumeclaims"))
	s.must(s.kubectl("", "create", "rolebinding", "ann", "-n", golden, "--role=reader", "--user=ann"))
	s.must(s.kubectl(manifest, "create", "--as=ann", "-f", "-"))
	if got, want := s.get("vm", "demo").GetAnnotations()["kilnvm.io/inference"], `["persistentvolumeclaims/`+golden+`/image"]`; got != want {
		t.Errorf("recorded rights '%s', want '%s'", got, want)
	}
	s.must(s.kubectl(lateImage, "create", "-n", golden, "-f", "-"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	if got, found := s.get("vm", "demo").GetAnnotations()["kilnvm.io/inference"]; found {
		t.Errorf("rights '%s' are still recorded, although nothing waits for them", got)
	}
}

// TestGuestsKeepTheirPresets: an edited preset takes effect for VMs that are created later, and for VMs that ask for new pins.
func TestGuestsKeepTheirPresets(t *testing.T) {
	s := newSpace(t)
	preset := func(policy string) string {
		return "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstancePreset, metadata: {name: io}, spec: {selector: {matchLabels: {io: fast}}, " +
			"domain: {devices: {}, ioThreadsPolicy: " + policy + "}}}"
	}
	s.must(s.kubectl(preset("shared"), "apply", "-f", "-"))
	s.create(vm("demo", append(running, "  template:", "  template:\n    metadata: {labels: {io: fast}}")...))
	next := func(after, want string) {
		t.Helper()
		var uid string
		if s.exists("vmi", "demo") {
			uid = string(s.get("vmi", "demo").GetUID())
			s.must(s.kubectl("", "delete", "vmi", "demo", "--wait=false"))
		}
		s.eventually("the VM has another VMI", func() bool { return s.another("demo", uid) })
		if got := field(s.get("vmi", "demo"), "spec", "domain", "ioThreadsPolicy"); got != want {
			t.Errorf("after %s the guest's ioThreadsPolicy is %v, want %s", after, got, want)
		}
	}
	next("the first start", "shared")
	s.must(s.kubectl(preset("auto"), "apply", "-f", "-"))
	next("the preset was edited", "shared")
	s.must(s.kubectl("", "delete", "virtualmachineinstancepreset", "io"))
	next("the preset was deleted", "shared")
	s.must(s.kubectl(preset("auto"), "apply", "-f", "-"))
	s.must(s.kubectl("", "annotate", "vm", "demo", "--overwrite", pinsAnnotation+`={"presets":""}`))
	next("new pins were asked for", "auto")
}

// TestPresetWithoutDevices: the API server takes a preset that describes no device, in both versions, and the VMIs that it matches get its fields.
func TestPresetWithoutDevices(t *testing.T) {
	s := newSpace(t)
	for _, version := range []string{"v1", "v1alpha3"} {
		s.create("{apiVersion: kubevirt.io/" + version + ", kind: VirtualMachineInstancePreset, metadata: {name: " + version + "}, " +
			"spec: {selector: {matchLabels: {io: " + version + "}}, domain: {ioThreadsPolicy: shared}}}")
		guest := s.must(s.kubectl("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: guest, labels: {io: "+version+"}}, "+
			"spec: {domain: {memory: {guest: 128Mi}, devices: {}}}}", "create", "--dry-run=server", "-o", "jsonpath={.spec.domain.ioThreadsPolicy}", "-f", "-"))
		if guest.stdout != "shared" {
			t.Errorf("%s: the guest's ioThreadsPolicy is '%s'", version, guest.stdout)
		}
	}
}
