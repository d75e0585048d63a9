package e2e

import (
	"strings"
	"testing"
)

// TestCatalogStatus: the status names the version of a catalog, its signature, each object that was deleted or edited since, and the next version. A registry
// that is down hides only what it knows.
func TestCatalogStatus(t *testing.T) {
	h := newShop(t)
	t.Cleanup(func() { h.uninstalled("stock") })
	h.want(`mkdir catalog
for name in stock.small stock.large stock.spare; do cat > catalog/$name.yaml <<END
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: $name}
spec: {cpu: {guest: 1}, memory: {guest: 128Mi}}
END
done`)
	reference := "oci://" + h.host + "/catalogs/stock"
	h.want("kubectl kiln catalog push catalog/ " + reference + ":1.0.0\nkubectl kiln catalog sign " + reference + ":1.0.0 --key cosign.key\n" +
		"kubectl kiln catalog install " + reference + ":1.0.0")
	status := func(why, command string, wantStatus int, want ...string) {
		t.Helper()
		output, code := h.run(command)
		for _, line := range want {
			if !strings.Contains(output, line) {
				t.Errorf("%s: no '%s' in\n%s", why, line, output)
			}
		}
		if code != wantStatus {
			t.Errorf("%s: status %d, want %d\n%s", why, code, wantStatus, output)
		}
	}
	const command = "kubectl kiln catalog status stock"
	status("as installed", command+" --key cosign.pub", 0, "stock 1.0.0 "+reference, "installed: 3 objects of 1.0.0 sha256:", "signed by the key of cosign.pub")
	output := h.want(command + " --key cosign.pub")
	for _, word := range []string{"differs", "newest", "not known"} {
		if strings.Contains(output, word) {
			t.Errorf("as installed:\n%s", output)
		}
	}
	h.want("mkdir other\ncp cosign.key cosign.pub other/")
	h.writeKeys() // another pair
	status("another key", command+" --key cosign.pub", 1, "NOT SIGNED by any of the given keys")
	status("one of two keys", command+" --key cosign.pub --key other/cosign.pub", 0, "signed by the key of other/cosign.pub")

	h.want(`kubectl delete vmcf stock.spare
kubectl label vmcf stock.large example.com/mine=yes
kubectl patch vmcf stock.small --type=merge -p '{"spec":{"memory":{"guest":"256Mi"}}}'`)
	status("drifted", command, 1, "differs: VirtualMachineClusterInstancetype stock.small, was edited: spec",
		"differs: VirtualMachineClusterInstancetype stock.spare, was deleted")
	if output, _ := h.run(command); strings.Contains(output, "stock.large") { // a label of another owner is no drift
		t.Errorf("drifted:\n%s", output)
	}
	h.want("sed -i 's/128Mi/192Mi/' catalog/stock.large.yaml\nkubectl kiln catalog push catalog/ " + reference + ":1.1.0 --allow-change\n" +
		"kubectl kiln catalog push catalog/ " + reference + ":2.0.0-rc.1\nkubectl kiln catalog install " + reference + ":1.0.0 --force")
	h.create(vm("touched", "{name: small}", "{name: stock.large}"))
	status("a newer version", command, 0, "newest: 1.1.0, needs restart: 0 added, 0 removed, 1 changed; VMs: 1 restart.", "rehearse --with "+reference+":1.1.0")
	status("as a document", command+" -o json | jq -r '.catalogs[0] | .catalog, .versions[0].version, .newest.version, (.drift | length)' | tr '\\n' ' '", 0,
		"stock 1.0.0 1.1.0 0")
	status("all catalogs", "kubectl kiln catalog status", 0, "stock 1.0.0")
	status("another name", "kubectl kiln catalog status stok", 2, "no object belongs to a catalog 'stok'")
	status("a file that is not a key", command+" --key catalog/stock.small.yaml", 2, "catalog/stock.small.yaml")
	h.stopRegistry()
	status("a registry that is down", command, 2, "installed: 3 objects of 1.0.0", "not known: version 1.0.0 cannot be read")
}
