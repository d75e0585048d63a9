package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/page"
	"github.com/kilnvm/kiln/test/samples"
)

// TestPublishedCatalogFromARegistry: KubeVirt's catalog goes from its folder to VMs and is removed again, whole. Five VMs stay as they are.
func TestPublishedCatalogFromARegistry(t *testing.T) {
	from := samples.Catalog(t)
	h := newShop(t)
	t.Cleanup(func() { h.uninstalled("published") }) // manifests/catalog is installed beside it
	if err := os.CopyFS(filepath.Join(h.dir, "catalog"), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	reference := "oci://" + h.host + "/catalogs/published:1.0.0"
	h.want("kubectl kiln catalog push catalog/ " + reference + "\nkubectl kiln catalog sign " + reference + " --key cosign.key")
	if output := h.want("kubectl kiln catalog verify " + reference + " --key cosign.pub"); !strings.HasSuffix(output, ": verified\n") {
		t.Errorf("verify: %s", output)
	}
	install := "kubectl kiln catalog install " + reference + " --key cosign.pub"
	h.lastLine(h.want(install), "catalog 'published' 1.0.0 (sha256:...): 122 created")

	before := map[string]string{}
	for _, instancetype := range []string{"u1.small", "m1.large", "o1.small", "cx1.medium", "rt1.small"} {
		name := strings.ReplaceAll(instancetype, ".", "-")
		h.want(fmt.Sprintf("kubectl kiln create vm --name %s --instancetype %s --preference linux --volume-containerdisk src:a/b:1 --apply\n"+
			"kubectl wait --for=create vmi/%s --timeout=60s", name, instancetype, name))
		before[name] = h.running(name)
	}
	const versions = "kubectl get vmcf,vmcp -l kilnvm.io/catalog=published -o custom-columns=N:.metadata.name,V:.metadata.resourceVersion"
	stored := h.want(versions)
	if output := h.want(install); strings.Count(output, "\n") != 1 || page.MissingLine(output, "catalog 'published' 1.0.0 (sha256:...): 122 unchanged") != "" {
		t.Errorf("the second installation: %s", output)
	}
	if now := h.want(versions); now != stored || strings.Count(now, "\n") < 122 {
		t.Errorf("the second installation has written:\n%s\nwas\n%s", now, stored)
	}
	h.secondVersion(strings.TrimSuffix(reference, ":1.0.0"))
	for _, name := range slices.Sorted(maps.Keys(before)) {
		h.same("another version", name, before[name])
	}
	h.lastLine(h.want("kubectl kiln catalog uninstall published"), "catalog 'published': 6 obsolete, 116 deleted")
	for _, name := range slices.Sorted(maps.Keys(before)) {
		h.same("uninstalled", name, before[name])
	}
	uid := h.get("vmi", "u1-small").GetUID()
	h.want("kubectl delete vmi u1-small\nkubectl wait --for=create vmi/u1-small --timeout=60s")
	if h.get("vmi", "u1-small").GetUID() == uid {
		t.Error("the VM has not restarted")
	}
	h.same("restarted", "u1-small", before["u1-small"])
}

// secondVersion publishes and installs a version in which an instancetype has more memory, and another one is deprecated.
func (h shop) secondVersion(repository string) {
	h.Helper()
	h.want(`cp -r catalog changed
sed -i '/^  name: u1.small$/,/^---/s/guest: 2Gi/guest: 3Gi/' changed/cluster-instancetypes.yaml
sed -i '/^  labels:$/,/^  name:/s/^  name: o1.small$/    kilnvm.io\/lifecycle: deprecated\n&/' changed/cluster-instancetypes.yaml`)
	output, status := h.run("kubectl kiln catalog diff catalog/ changed/")
	if status != 3 || !strings.Contains(output, "spec.memory.guest: \"2Gi\" -> \"3Gi\"") || !strings.Contains(output, "2 changed, 120 unchanged") {
		h.Errorf("diff: %d: %s", status, output)
	}
	push := "kubectl kiln catalog push changed/ " + repository + ":2.0.0"
	if output, status := h.run(push); status != 1 || !strings.Contains(output, "instancetype 'u1.small' differs from version 1.0.0") {
		h.Errorf("push: %d: %s", status, output)
	}
	h.want(push + " --allow-change\nkubectl kiln catalog sign " + repository + ":2.0.0 --key cosign.key")
	h.lastLine(h.want("kubectl kiln catalog install "+repository+":2.0.0 --key cosign.pub"), "catalog 'published' 2.0.0 (sha256:...): 122 ...")
	create := func(instancetype string) string {
		return "kubectl kiln create vm --name new --instancetype " + instancetype + " --preference linux --volume-containerdisk src:a/b:1"
	}
	old := pins(h.T, h.get("vm", "u1-small"))["instancetype"]
	h.awaitCreation("a new VM has a revision of the second version", h.want(create("u1.small")), func(a answer) bool {
		return a.err == nil && strings.Contains(a.stdout, "u1.small-") && !strings.Contains(a.stdout, old)
	})
	h.awaitCreation("a new VM of what is deprecated brings a warning", h.want(create("o1.small")), func(a answer) bool {
		return a.err == nil && strings.Contains(a.stderr, "deprecated")
	})
	h.want(create("u1.small") + " --apply\nkubectl wait --for=create vmi/new --timeout=60s")
	if memory := field(h.get("vmi", "new"), "spec", "domain", "memory", "guest"); memory != "3Gi" {
		h.Errorf("a new VM has %v of memory", memory)
	}
}

// lastLine expects the summary of a command at the end of its output.
func (h shop) lastLine(output, want string) {
	h.Helper()
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if page.MissingLine(lines[len(lines)-1], want) != "" {
		h.Fatalf("the last line is not '%s':\n%s", want, output)
	}
}
