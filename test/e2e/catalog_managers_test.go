package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const catalogManager = "kiln-catalog"

// managers returns the field managers of an instancetype in the cluster.
func (c catalog) managers(name string) []string {
	c.Helper()
	return strings.Fields(c.must(c.kubectl("", "get", "virtualmachineclusterinstancetype", c.of(name), "--show-managed-fields",
		"-o", "jsonpath={.metadata.managedFields[*].manager}")).stdout)
}

// published expects that the cluster has what the catalog published of an instancetype, and nothing of anybody else.
func (c catalog) published(why, name, memory string) {
	c.Helper()
	object := c.get("virtualmachineclusterinstancetype", c.of(name))
	want := map[string]any{"cpu": map[string]any{"guest": int64(1)}, "memory": map[string]any{"guest": memory}}
	if diff := cmp.Diff(want, object.Object["spec"]); diff != "" {
		c.Errorf("%s: spec of %s (-published +has)\n%s", why, name, diff)
	}
	if labels := object.GetLabels(); !maps.Equal(labels, map[string]string{"test": c.name, "kilnvm.io/catalog": c.name}) {
		c.Errorf("%s: %s has labels %v", why, name, labels)
	}
	for key := range object.GetAnnotations() {
		if !strings.HasPrefix(key, "kilnvm.io/catalog-") {
			c.Errorf("%s: %s has annotation %s", why, name, key)
		}
	}
	if managers := c.managers(name); !slices.Equal(managers, []string{catalogManager}) {
		c.Errorf("%s: %s is managed by %q", why, name, managers)
	}
}

// TestCatalogBesideOtherManagers: what kubectl applied, created and patched is taken over whole by --force, once; without it, it is a conflict. What existed
// before the catalog is released by its removal: no VM loses its instancetype.
func TestCatalogBesideOtherManagers(t *testing.T) {
	c := newCatalog(t)
	more := func(name string) string {
		return strings.Replace(c.instancetype(name, "64Mi"), "memory:", "ioThreadsPolicy: auto, annotations: {a: b}, memory:", 1)
	}
	c.must(c.kubectl(more("server"), "apply", "--server-side", "-f", "-"))
	c.must(c.kubectl(more("client"), "apply", "-f", "-"))
	c.must(c.kubectl(more("made"), "create", "-f", "-"))
	c.must(c.kubectl(more("bare"), "create", "-f", "-"))
	c.must(c.kubectl("", "patch", "virtualmachineclusterinstancetype", c.of("bare"), "--type=merge", "-p", `{"metadata":{"managedFields":[{}]}}`))
	theirs := []string{"server", "client", "made", "bare"}
	first := c.file("1.0.0", c.instancetype("own", "128Mi"), c.instancetype("server", "128Mi"), c.instancetype("client", "128Mi"),
		c.instancetype("made", "128Mi"), c.instancetype("bare", "128Mi"))
	c.refused(c.install(first), c.of("server")+": exists and belongs to no catalog; its fields are managed by 'kubectl'",
		"'kubectl-client-side-apply'", "'kubectl-create'")
	c.expect("taken over", c.install(first, "--force"), "own: created", "server: updated (taken over)", "client: updated (taken over)",
		"made: updated (taken over)", "bare: updated (taken over)", "catalog 'NAME': 1 created, 4 updated")
	for _, name := range append(theirs, "own") {
		c.published("taken over", name, "128Mi")
	}
	c.expect("again, by force", c.install(first, "--force"), "catalog 'NAME': 5 unchanged")
	c.expect("again", c.install(first), "catalog 'NAME': 5 unchanged")

	// Others write into objects of the catalog.
	kind := "virtualmachineclusterinstancetype"
	c.must(c.kubectl("", "patch", kind, c.of("own"), "--type=merge", "-p", `{"spec":{"ioThreadsPolicy":"auto","cpu":{"model":"host-model"}}}`,
		"--field-manager=hand"))
	c.must(c.kubectl("", "label", kind, c.of("client"), "kilnvm.io/lifecycle=deprecated", "--field-manager=hand"))
	c.must(c.kubectl("apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\nmetadata: {name: "+c.of("server")+"}\n"+
		"spec: {memory: {guest: 128Mi}, nodeSelector: {a: b}}\n", "apply", "--server-side", "-f", "-"))
	c.refused(c.install(first), c.of("own")+": the catalog does not have spec.ioThreadsPolicy, which is managed by 'hand'",
		c.of("own")+": the catalog does not have spec.cpu.model, which is managed by 'hand'",
		c.of("server")+": the catalog does not have spec.nodeSelector, which is managed by 'kubectl'",
		c.of("client")+": the catalog does not have metadata.labels[kilnvm.io/lifecycle], which is managed by 'hand'", "4 conflicts")
	c.expect("a dry run", c.install(first, "--force", "--dry-run"), "own: updated (spec, fields of 'hand') (dry run)",
		"server: updated (spec, fields of 'kubectl') (dry run)", "client: updated (labels, fields of 'hand') (dry run)",
		"catalog 'NAME' (dry run): 3 updated, 2 unchanged")
	c.expect("by force", c.install(first, "--force"), "own: updated (spec, fields of 'hand')",
		"server: updated (spec, fields of 'kubectl')", "client: updated (labels, fields of 'hand')", "catalog 'NAME': 3 updated, 2 unchanged")
	for _, name := range append(theirs, "own") {
		c.published("by force", name, "128Mi")
	}
	c.expect("again", c.install(first, "--force"), "catalog 'NAME': 5 unchanged")
	// A label that nobody reads is no business of the catalog's.
	c.must(c.kubectl("", "label", kind, c.of("own"), "team=blue", "--field-manager=hand"))
	c.expect("a label of another hand", c.install(first), "catalog 'NAME': 5 unchanged")
	c.expect("a label of another hand, by force", c.install(first, "--force"), "own: updated (fields of 'hand')", "catalog 'NAME': 1 updated, 4 unchanged")
	c.published("a label of another hand", "own", "128Mi")

	// What existed before is released, by a version that drops it and by the removal.
	for vmName, name := range map[string]string{"web": "server", "db": "own", "shop": "client"} {
		c.create(vm(vmName, "{name: small}", "{name: "+c.of(name)+"}"))
	}
	used := "; used by vm/" + c.space.name + "/"
	second := c.file("1.1.0", c.instancetype("own", "128Mi"), c.instancetype("client", "128Mi"), c.instancetype("made", "128Mi"), c.instancetype("bare", "128Mi"))
	c.expect("dropped", c.install(second), "own: updated (version)", "client: updated (version)", "made: updated (version)",
		"bare: updated (version)", "server: released (existed before the catalog)"+strings.ReplaceAll(used, c.space.name, "SPACE")+"web",
		"catalog 'NAME': 4 updated, 1 released")
	c.expect("uninstalled", c.kiln("catalog", "uninstall", c.name), "bare: released (existed before the catalog)",
		"client: released (existed before the catalog); used by vm/SPACE/shop", "made: released (existed before the catalog)",
		"own: obsolete; used by vm/SPACE/db", "catalog 'NAME': 1 obsolete, 3 released")
	for _, name := range theirs {
		object := c.get(kind, c.of(name))
		if labels := object.GetLabels(); !maps.Equal(labels, map[string]string{"test": c.name}) || len(object.GetAnnotations()) > 0 {
			t.Errorf("%s is released with labels %v and annotations %v", name, labels, object.GetAnnotations())
		}
		c.must(c.kubectl(vm(fmt.Sprintf("late-%s", name), "{name: small}", "{name: "+c.of(name)+"}"), "create", "--dry-run=server", "-f", "-"))
	}
	if c.has("own") != "obsolete" {
		t.Errorf("what the catalog brought is '%s'", c.has("own"))
	}
	c.expect("uninstalled again", c.kiln("catalog", "uninstall", c.name), "own: is obsolete already; used by vm/SPACE/db", "catalog 'NAME': 1 unchanged")
}
