package pods

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/kilnvm/kiln/test/installation"
	"github.com/kilnvm/kiln/test/node"
)

// second is the node that joins the shared one for all tests of two nodes.
var second struct {
	sync.Mutex
	*node.Node
	serves bool
}

// join returns the second node, which runs guests as the first does. If the node does not serve guests in time, the next test waits for the same node.
func join(t *testing.T) *node.Node {
	t.Helper()
	second.Lock()
	defer second.Unlock()
	if second.Node == nil {
		second.Node = shared.AddNode(t, "node-2") // a name joins once: the supervisor ends all nodes if it joins again
	}
	if !second.serves {
		if err := errors.Join(installed.Import(t.Context(), second.Node), installation.AwaitPasst(t.Context(), second.Node)); err != nil {
			t.Fatal(err)
		}
		second.serves = true
	}
	return second.Node
}

// importEverywhere brings an image to all nodes: a pod that selects no node may run on the second one, if another test has made it join.
func importEverywhere(t *testing.T, file string) {
	t.Helper()
	second.Lock()
	defer second.Unlock()
	shared.Import(t, file)
	if second.Node != nil {
		second.Import(t, file)
	}
}

// only selects one node.
func only(node string) string { return "nodeSelector: {kubernetes.io/hostname: " + node + "}\n" }

// nodeOf returns the node of a VMI, as the VMI and its pod say.
func (n *tenant) nodeOf(vmi string) string {
	n.Helper()
	node := n.kubectl("get", "vmi", vmi, "-o", "jsonpath={.status.nodeName}")
	if bound := n.kubectl("get", "pod", "guest-"+vmi, "-o", "jsonpath={.spec.nodeName}"); bound != node {
		n.Errorf("VMI %s says that it is on node '%s', and its pod is on '%s'", vmi, node, bound)
	}
	return node
}

// unschedulable waits until a VMI says in kube-scheduler's words why it has no node, and kubectl that the VM waits for that.
func (n *tenant) unschedulable(vmi string, words ...string) {
	n.Helper()
	n.eventually("VMI "+vmi+" says why it has no node", func() (string, bool) {
		out, err := shared.Kubectl(n.Context(), "--namespace", n.namespace, "get", "vmi", vmi, "-o",
			`jsonpath={.status.phase} {.status.conditions[?(@.type=="Synchronized")].status} {.status.conditions[?(@.type=="Synchronized")].reason} `+
				`{.status.conditions[?(@.type=="Synchronized")].message}`)
		return out, err == nil && strings.HasPrefix(out, "Scheduling False Unschedulable 0/2 nodes are available: ")
	})
	message := n.kubectl("get", "vmi", vmi, "-o", `jsonpath={.status.conditions[?(@.type=="Synchronized")].message}`)
	for _, word := range words {
		if !strings.Contains(message, word) {
			n.Errorf("VMI %s says '%s', want '%s' in it", vmi, message, word)
		}
	}
	if of := n.kubectl("get", "pod", "guest-"+vmi, "-o", `jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`); of != message {
		n.Errorf("VMI %s says '%s', and kube-scheduler '%s'", vmi, message, of)
	}
	n.eventually("kubectl get vm says that "+vmi+" has no node", func() (string, bool) {
		out := n.kubectl("get", "vm", vmi, "--no-headers")
		return out, strings.Contains(out, "ErrorUnschedulable")
	})
}
