package virtlauncher

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/nightly"
)

// TestDrain: 'kubectl drain' empties a node with a guest, KubeVirt's own pods and Kiln's, and then the other node. virt-api refuses to evict the guest's pod,
// virt-controller migrates the guest, and it is not restarted. All of it is the same beside Kiln.
func TestDrain(t *testing.T) {
	require(t)
	nightly.Only(t)
	both(t, func(g space) {
		secondNode(g.T)
		// As virt-operator has them on more than one node. While the only virt-api moves, no one refuses to evict a guest.
		g.kubectl("--namespace", Namespace, "scale", "--replicas=2", "deployment/virt-api", "deployment/virt-controller")
		for _, name := range []string{"virt-api", "virt-controller"} {
			g.kubectl("--namespace", Namespace, "rollout", "status", "--timeout=300s", "deployment/"+name)
		}
		g.create(strings.Replace(machine, "terminationGracePeriodSeconds", "evictionStrategy: LiveMigrate\n      terminationGracePeriodSeconds", 1))
		g.virtctl("start", "demo")
		vmi := g.runs("demo", "")
		g.reports(vmi)
		g.treated("demo", true)
		boot := g.boot("demo")
		for range 2 {
			source := g.vmi("demo").Status.NodeName
			g.Cleanup(func() { _, _ = shared.Kubectl(context.Background(), "uncordon", source) })
			g.drain(source)
			g.moved("demo", source)
			if now := g.vmi("demo"); now.UID != vmi.UID {
				g.Fatalf("the VMI is another one: %s, it was %s", now.UID, vmi.UID)
			}
			g.goesOn("demo", boot)
			left := strings.Fields(g.kubectl("get", "pods", "--all-namespaces", "--field-selector", "spec.nodeName="+source+",status.phase=Running",
				"-o", "jsonpath={.items[*].metadata.ownerReferences[*].kind}"))
			if slices.ContainsFunc(left, func(owner string) bool { return owner != "DaemonSet" }) {
				g.Errorf("%s still has pods of %v", source, left)
			}
			g.kubectl("uncordon", source)
			if kiln != nil {
				if err := kiln.Await(g.Context(), shared); err != nil {
					g.Error(err)
				}
			}
		}
		g.pause("demo")
		g.kubectl("delete", "vm", "demo", "--timeout=180s")
		g.gone("vm,vmi,pods")
	})
}

// drain drains a node. kubectl ends if virt-api does not answer in time whether the guest's pod may be evicted, as on a busy machine: then it is called again.
func (g space) drain(name string) {
	g.Helper()
	g.eventually(name+" is drained", func() (bool, any) {
		out, err := shared.Kubectl(g.Context(), "drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=600s")
		if err != nil && !strings.Contains(out, `failed calling webhook "virt-launcher-eviction-interceptor.kubevirt.io"`) {
			g.Fatalf("kubectl drain: %v\n%s", err, out)
		}
		return err == nil, out
	})
}
