package e2e

import (
	"strings"
	"testing"
)

// TestTenantWritesNoRecord: what a guest was made from, whose it is and what it saw are written by controllers. A tenant with the edit role is
// told so, and no revision comes of what the tenant wrote.
func TestTenantWritesNoRecord(t *testing.T) {
	s := newSpace(t)
	s.must(s.kubectl("", "create", "rolebinding", "tenant", "--clusterrole=kiln-edit", "--user=tenant"))
	s.must(s.kubectl(vm("demo", running...), "create", "-f", "-"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	refused := func(why, want, manifest string, args ...string) {
		t.Helper()
		said := s.kubectl(manifest, append(args, "--as=tenant")...)
		if said.err == nil || !strings.Contains(said.stderr, want) {
			t.Errorf("%s: want '%s', got '%s' %v", why, want, said.stdout+said.stderr, said.err)
		}
	}
	for _, key := range []string{"frontend", "pins", "identity", "generation"} {
		refused("annotation of a guest that exists", "kilnvm.io/frontend, generation, identity and pins are written by controllers only", "",
			"annotate", "vmi", "demo", "--overwrite", "kilnvm.io/"+key+`={"devices":{"forged":{"drive":"9:9:9:9"}}}`)
	}
	const forged = `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: forged, annotations: {kilnvm.io/frontend: '{"devices":{"disk.a":{"drive":"4000000000:0:0:0"}}}'}}, ` +
		`spec: {nodeSelector: {machine: none}, domain: {memory: {guest: 64Mi}, devices: {}}}}`
	refused("a record that exhausts a node", "metadata.annotations[kilnvm.io/frontend]", forged, "create", "-f", "-")
	uid := string(s.get("vm", "demo").GetUID())
	owned := `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: owned, ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: demo, uid: ` + uid +
		`, controller: true}]}, spec: {nodeSelector: {machine: none}, domain: {memory: {guest: 64Mi}, devices: {}}}}`
	refused("a guest for another's VM", "metadata.ownerReferences[0]", owned, "create", "-f", "-")
	refused("a guest without its VM", "the guest belongs to its VirtualMachine", "", "patch", "vmi", "demo", "--type=merge",
		`-p={"metadata":{"ownerReferences":null}}`)
	for _, test := range []struct{ why, from, to, want string }{
		{"a captured record of nothing", "  template:\n", "  template:\n    metadata: {annotations: {kilnvm.io/frontend: garbage}}\n",
			"spec.template.metadata.annotations[kilnvm.io/frontend]"},
		{"a typing error", "metadata: {name: wrong}", "metadata: {name: wrong, annotations: {kilnvm.io/hardware: lates}}",
			"metadata.annotations[kilnvm.io/hardware]"},
		{"a kind that is none", "instancetype: {name: small}", "instancetype: {name: small, kind: foo}", "spec.instancetype.kind"},
		{"a revision of nothing", "instancetype: {name: small}", "instancetype: {name: small, revisionName: nothing}", "spec.instancetype.revisionName"},
	} {
		refused(test.why, test.want, vm("wrong", test.from, test.to), "create", "-f", "-")
	}
	if all := s.must(s.kubectl("", "get", "controllerrevisions", "-o", "yaml")).stdout; strings.Contains(all, "9:9:9:9") || strings.Contains(all, "forged") {
		t.Errorf("a tenant's annotation became a revision:\n%s", all)
	}
}
