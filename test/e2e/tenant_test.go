package e2e

import (
	"strings"
	"testing"
)

// TestTenantWritesNoRecord: pins, owner and hardware record of a VMI are written by controllers. A tenant with the edit role is refused, and no
// revision comes of what the tenant wrote.
func TestTenantWritesNoRecord(t *testing.T) {
	s := newSpace(t)
	s.must(s.kubectl("", "create", "rolebinding", "tenant", "--clusterrole=kiln-edit", "--user=tenant"))
	s.create(vm("demo", running...))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	refused := func(why, want, manifest string, args ...string) {
		t.Helper()
		result := s.kubectl(manifest, append(args, "--as=tenant")...)
		if result.err == nil || !strings.Contains(result.stderr, want) {
			t.Errorf("%s: want '%s', got '%s' %v", why, want, result.stdout+result.stderr, result.err)
		}
	}
	for _, key := range []string{"pins", "identity", "generation"} {
		refused("annotation of a guest that exists", "metadata.annotations[kilnvm.io/"+key+"]: Forbidden: only controllers may change", "",
			"annotate", "vmi", "demo", "--overwrite", "kilnvm.io/"+key+`={"devices":{"forged":{"drive":"9:9:9:9"}}}`)
	}
	const record = `{"spec": {"hardware": {"defaults": "a", "digest": "", "devices": {"disk.a": {"drive": "4000000000:0:0:0"}}}}}`
	made := `{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestHardware", "metadata": {"name": "forged"}, ` + record[1:]
	s.must(s.kubectl("", "patch", "vmi", "demo", "--subresource=status", "--type=merge", `-p={"status":{"nodeName":"none","phase":"Scheduled"}}`))
	s.eventually("the guest has its hardware", func() bool { return s.exists("guesthardware", "demo") })
	refused("hardware, by role", "cannot create resource", made, "create", "-f", "-")
	refused("hardware, by role", "cannot patch resource", "", "patch", "guesthardware", "demo", "--type=merge", "-p="+record)
	refused("hardware, by role", "cannot delete resource", "", "delete", "guesthardware", "demo")
	if result := s.kubectl(made, "create", "-f", "-"); result.err == nil || !strings.Contains(result.stderr, "spec.hardware") {
		t.Errorf("an administrator restores a record that exhausts a node: %s", result.stdout+result.stderr)
	}
	uid := string(s.get("vm", "demo").GetUID())
	owned := `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: owned, ownerReferences: [` +
		`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: demo, uid: ` + uid +
		`, controller: true}]}, spec: {nodeSelector: {machine: none}, domain: {memory: {guest: 64Mi}, devices: {}}}}`
	refused("a guest for another's VM", "metadata.ownerReferences[0]", owned, "create", "-f", "-")
	refused("a guest without its VM", "the VMI belongs to VirtualMachine 'demo'", "", "patch", "vmi", "demo", "--type=merge",
		`-p={"metadata":{"ownerReferences":null}}`)
	for _, test := range []struct{ why, from, to, want string }{
		{"a typing error", "metadata: {name: wrong}", "metadata: {name: wrong, annotations: {kilnvm.io/hardware: lates}}",
			"metadata.annotations[kilnvm.io/hardware]"},
		{"a kind that does not exist", "instancetype: {name: small}", "instancetype: {name: small, kind: foo}", "spec.instancetype.kind"},
		{"a revision of nothing", "instancetype: {name: small}", "instancetype: {name: small, revisionName: nothing}", "spec.instancetype.revisionName"},
	} {
		refused(test.why, test.want, vm("wrong", test.from, test.to), "create", "-f", "-")
	}
	all := s.must(s.kubectl("", "get", "controllerrevisions,guesthardwares", "-o", "yaml")).stdout
	if strings.Contains(all, "9:9:9:9") || strings.Contains(all, "forged") {
		t.Errorf("what a tenant wrote became a guest's:\n%s", all)
	}
}
