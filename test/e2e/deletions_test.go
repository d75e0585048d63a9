package e2e

import (
	"strings"
	"testing"
)

// TestDeletionOfUsedObjects: kubectl prints who uses what is deleted, and the label kilnvm.io/keep-while-used makes a refusal of it, until nobody does.
func TestDeletionOfUsedObjects(t *testing.T) {
	c, other := newCatalog(t), newSpaceOn(t, shared)
	const kind = "virtualmachineclusterinstancetype"
	name := c.of("used")
	c.must(c.kubectl(c.instancetype("used", "128Mi"), "create", "-f", "-"))
	c.create(vm("web", "{name: small}", "{name: "+name+"}"))
	other.create(vm("db", "{name: small}", "{name: "+name+"}"))
	c.must(c.kubectl("", "create", "rolebinding", "tenant", "--clusterrole=kiln-edit", "--user=tenant"))
	c.must(c.kubectl("", "create", "clusterrole", c.name+"-catalog", "--verb=delete,get,list,watch", "--resource=virtualmachineclusterinstancetypes"))
	c.must(c.kubectl("", "create", "clusterrolebinding", c.name+"-catalog", "--clusterrole="+c.name+"-catalog", "--user=tenant"))
	t.Cleanup(func() { _ = c.kubectlAfter("delete", "clusterrolebinding,clusterrole", c.name+"-catalog") })

	both := []string{c.space.name + "/web", other.name + "/db"}
	if both[0] > both[1] {
		both[0], both[1] = both[1], both[0]
	}
	warned := func(why, want string, a answer) {
		t.Helper()
		c.must(a)
		for _, part := range []string{"Warning: VirtualMachineClusterInstancetype '" + name + "' is used by " + want + "\n", "keep their revision"} {
			if !strings.Contains(strings.ReplaceAll(a.stderr, "keeps its", "keep their"), part) {
				t.Errorf("%s: want '%s', got\n%s", why, part, a.stderr)
			}
		}
	}
	warned("a dry run of an administrator", "2 VMs: "+strings.Join(both, ", "), c.kubectl("", "delete", kind, name, "--dry-run=server"))
	warned("a tenant learns no name of another's", "2 VMs: "+c.space.name+"/web and 1 more",
		c.kubectl("", "delete", kind, name, "--dry-run=server", "--as=tenant"))

	c.must(c.kubectl("", "label", kind, name, "kilnvm.io/keep-while-used=true"))
	refused := func(why, want string) {
		t.Helper()
		a := c.kubectl("", "delete", kind, name)
		if a.err == nil || !strings.Contains(a.stderr, want) || !strings.Contains(a.stderr, "metadata.labels[kilnvm.io/keep-while-used]") {
			t.Errorf("%s: want '%s', got %v %s%s", why, want, a.err, a.stdout, a.stderr)
		}
	}
	c.eventually("the API server asks about the label", func() bool {
		return c.kubectl("", "delete", kind, name, "--dry-run=server").err != nil
	})
	refused("two use it", "is used by 2 VMs: "+strings.Join(both, ", "))
	c.must(other.kubectl("", "delete", "vm", "db"))
	refused("one uses it", "is used by 1 VM: "+c.space.name+"/web")
	c.must(c.kubectl("", "delete", "vm", "web"))
	if a := c.must(c.kubectl("", "delete", kind, name)); strings.Contains(a.stderr, "is used by") {
		t.Errorf("nobody uses it: %s", a.stderr)
	}
}

// TestDeletionOfNamespaceWithKeptObjects: a namespace goes with the objects that are kept and the VMs that use them.
func TestDeletionOfNamespaceWithKeptObjects(t *testing.T) {
	s := newSpace(t)
	s.must(s.kubectl("apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineInstancetype\n"+
		"metadata: {name: own, labels: {kilnvm.io/keep-while-used: 'true'}}\nspec: {cpu: {guest: 1}, memory: {guest: 128Mi}}\n", "create", "-f", "-"))
	s.create(vm("web", "{name: small}", "{name: own, kind: VirtualMachineInstancetype}"))
	if a := s.kubectl("", "delete", "virtualmachineinstancetype", "own"); a.err == nil || !strings.Contains(a.stderr, "is used by 1 VM: "+s.name+"/web") {
		t.Errorf("%v %s", a.err, a.stderr)
	}
	s.must(s.kubectl("", "patch", "vm", "web", "--type=merge", `-p={"metadata":{"finalizers":["kilnvm.io/test"]}}`)) // it outlives the first attempt
	s.must(s.kubectl("", "delete", "namespace", s.name, "--wait=false"))
	s.eventually("the kept object goes first", func() bool { return !s.exists("virtualmachineinstancetype", "own") })
	if !s.exists("vm", "web") {
		t.Error("the VM is gone, so that nothing is tested")
	}
	s.must(s.kubectl("", "patch", "vm", "web", "--type=merge", `-p={"metadata":{"finalizers":null}}`))
}
