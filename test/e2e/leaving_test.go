package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// leaving are the kinds of a tenant that Kiln keeps in its caches: a small spec, and a spec with a list of too many elements.
var leaving = []struct{ kind, apiVersion, small, large string }{
	{
		"VirtualMachineInstancetype", "instancetype.kubevirt.io/v1beta1", "{cpu: {guest: 1}, memory: {guest: 1Gi}}",
		"{cpu: {guest: 1}, memory: {guest: 1Gi}, gpus: [" + many("{name: g%d, deviceName: example.org/gpu}") + "]}",
	},
	{
		"VirtualMachinePreference", "instancetype.kubevirt.io/v1beta1", "{}",
		"{cpu: {preferredCPUFeatures: [" + many("{name: f%d}") + "]}}",
	},
	{
		"VirtualMachineInstancePreset", "kubevirt.io/v1", "{selector: {}, domain: {memory: {guest: 1Gi}}}",
		"{selector: {}, domain: {devices: {disks: [" + many("{name: d%d, disk: {}}") + "]}}}",
	},
	{
		"GuestProfile", "kilnvm.io/v1alpha1", "{template: {spec: {terminationGracePeriodSeconds: 1}}}",
		"{template: {spec: {tolerations: [" + many("{key: k%d, operator: Exists}") + "]}}}",
	},
	{
		"VirtualMachine", "kubevirt.io/v1", "{runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}",
		"{runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}, tolerations: [" + many("{key: k%d, operator: Exists}") + "]}}}",
	},
}

func many(element string) string {
	var list strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&list, element+", ", i)
	}
	return list.String()
}

// TestSpecsAreBoundedWhileObjectsLeave: caches keep an object that a finalizer holds, so that its lists are bounded until it is gone. Only a spec that
// stays is not judged, since finalizers must go whatever the spec is. A deletionTimestamp that the author of a new object wrote, which server-side apply
// stores, has no say.
func TestSpecsAreBoundedWhileObjectsLeave(t *testing.T) {
	for _, c := range leaving {
		t.Run(c.kind, func(t *testing.T) {
			s := newSpace(t)
			object := func(metadata, spec string) string {
				return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: leaves, %s}, spec: %s}", c.apiVersion, c.kind, metadata, spec)
			}
			s.create(object("finalizers: [example.org/held]", c.small))
			t.Cleanup(func() {
				s.kubectlAfter("patch", c.kind, "leaves", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			})
			s.must(s.kubectl("", "delete", c.kind, "leaves", "--wait=false"))
			if s.get(c.kind, "leaves").GetDeletionTimestamp() == nil {
				t.Fatal("the object is not being deleted")
			}
			update := s.kubectl(object("finalizers: [example.org/held]", c.large), "replace", "-f", "-")
			if update.err == nil || !strings.Contains(update.stderr, "2000") {
				t.Errorf("an update of an object that is being deleted: %v %.300s, want a refusal that counts 2000 elements", update.err, update.stderr)
			}
			s.must(s.kubectl("", "annotate", c.kind, "leaves", "example.org/left=true"))
			s.must(s.kubectl("", "patch", c.kind, "leaves", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`))

			dying := strings.Replace(object("deletionTimestamp: '2026-01-01T00:00:00Z'", c.large), "leaves", "forged", 1)
			forged := s.kubectl(dying, "apply", "--server-side", "-f", "-")
			if forged.err == nil || !strings.Contains(forged.stderr, "2000") {
				t.Errorf("a create with a deletionTimestamp: %v %.300s, want a refusal that counts 2000 elements", forged.err, forged.stderr)
			}
			if s.exists(c.kind, "forged") {
				t.Error("the object with a forged deletionTimestamp exists")
			}
		})
	}
}
