package placeable

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/nodecpu"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// stage is one demand on nodes. A verdict names the first stage after which no node is left.
type stage struct {
	reason string
	fits   func(*corev1.Node) bool
	// explain returns the message about the nodes that are left before the stage.
	explain func(left []*corev1.Node) string
}

// judgeNodes returns whether a node could run a pod if no other pod were there. A node that is away for now counts, but only in a verdict of Unknown.
func judgeNodes(need Need, cluster Cluster) Verdict {
	nodes := cluster.Nodes
	if len(nodes) == 0 {
		return no(v1alpha1.ReasonNoNode, "the cluster has no node: add one")
	}
	left := make([]*corev1.Node, 0, len(nodes))
	for i := range nodes {
		left = append(left, &nodes[i])
	}
	for _, s := range stagesOf(need, cluster.Fleet) {
		fit := slices.DeleteFunc(slices.Clone(left), func(node *corev1.Node) bool { return !s.fits(node) })
		switch {
		case len(fit) > 0:
			left = fit
		case s.reason == v1alpha1.ReasonNodesUnavailable:
			return Unknown(s.reason, s.explain(left))
		default:
			return no(s.reason, s.explain(left))
		}
	}
	return fits()
}

// stagesOf returns the demands of a guest, in the order in which the scheduler's filters name them. What may change at any moment comes last.
func stagesOf(need Need, fleet *nodecpu.Fleet) []stage {
	of := need.Pod
	requests := resourcehelper.PodRequests(of, resourcehelper.PodResourcesOptions{})
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	var devices, hugePages, size []corev1.ResourceName
	for name, quantity := range requests {
		switch {
		case quantity.IsZero():
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			hugePages = append(hugePages, name)
		case strings.Contains(string(name), "/"):
			devices = append(devices, name)
		default:
			size = append(size, name)
		}
	}
	holds := func(names []corev1.ResourceName) func(*corev1.Node) bool {
		return func(node *corev1.Node) bool { return len(lacking(node, requests, names)) == 0 }
	}
	affinity := nodeaffinity.GetRequiredNodeAffinity(of)
	return []stage{
		{v1alpha1.ReasonNoNodeMatches, func(node *corev1.Node) bool {
			matches, err := affinity.Match(node) // an error is a term that matches no node
			return err == nil && matches
		}, func(left []*corev1.Node) string { return explainLabels(of, left) }},
		{v1alpha1.ReasonNoNodeTolerated, func(node *corev1.Node) bool { return untolerated(of, node, lasts) == nil }, func(left []*corev1.Node) string {
			taint := untolerated(of, left[0], lasts)
			return "each node with the labels that the guest needs has a taint that it does not tolerate, such as " + quote(taint.Key) +
				": add a toleration to the VM, or remove the taint from a node"
		}},
		{v1alpha1.ReasonNoNodeHasMachineType, func(node *corev1.Node) bool { return hasMachineType(node, need.MachineType) }, func([]*corev1.Node) string {
			return "QEMU on the nodes for the guest lacks machine type " + quote(need.MachineType) +
				": set machine.type to a type that it has, such as the alias 'q35', 'virt' or 's390-ccw-virtio' of the architecture, or use a launcher image " +
				"whose QEMU has the type"
		}},
		{v1alpha1.ReasonNoNodeHasCPU, func(node *corev1.Node) bool { return fleet.Fits(need.CPU, node) }, func(left []*corev1.Node) string {
			return "no node offers the CPU of the guest: " + explainCPU(need.CPU, fleet, left) +
				". Add a node that does, or let the guest have another CPU: 'kubectl kiln repin --cpu' replaces a recorded CPU, and domain.cpu names another one"
		}},
		{v1alpha1.ReasonNoNodeHasDevice, holds(devices), func(left []*corev1.Node) string {
			return "no node for the guest has these devices: " + explainLacking(left, requests, devices) +
				". Add a node that has them, or check the device plugins of the nodes"
		}},
		{v1alpha1.ReasonNoNodeHasHugePages, holds(hugePages), func(left []*corev1.Node) string {
			return "no node for the guest has these huge pages: " + explainLacking(left, requests, hugePages) +
				". Reserve them on a node, or use an instancetype without huge pages"
		}},
		{v1alpha1.ReasonNoNodeLargeEnough, holds(size), func(left []*corev1.Node) string {
			return "no node for the guest is large enough, even without other pods, for " + explainLacking(left, requests, size) +
				". Add a larger node, or use a smaller instancetype"
		}},
		{v1alpha1.ReasonNodesUnavailable, func(node *corev1.Node) bool { return untolerated(of, node, isTemporary) == nil && isReady(node) },
			func([]*corev1.Node) string {
				return "each node for the guest is cordoned, not ready or under pressure: wait, or uncordon a node"
			}},
	}
}

// hasMachineType reports whether QEMU on a node has a machine type. A node that does not report its types counts as a node that has it.
func hasMachineType(node *corev1.Node, wanted string) bool {
	reported := node.Annotations[v1alpha1.AnnotationMachineTypes]
	if wanted == "" || reported == "" {
		return true
	}
	for found := range strings.SplitSeq(reported, ",") {
		if found == wanted {
			return true
		}
	}
	return false
}

// explainCPU counts the nodes by what they lack of a CPU. What most nodes lack comes first.
func explainCPU(need nodecpu.Need, fleet *nodecpu.Fleet, left []*corev1.Node) string {
	type verb struct{ one, many, object string }
	counts := map[verb]int{}
	for _, node := range left {
		lack := fleet.LackOf(need, node)
		switch vendor := lack.Vendor; {
		case !fleet.Reports(need, node):
			counts[verb{"does", "do", "not report a CPU"}]++
		case lack.Model == "" && len(lack.Features) == 0:
			counts[verb{"has", "have", "another vendor " + vendor}]++
		default:
			counts[verb{"lacks", "lack", lack.String()}]++
		}
	}
	groups := slices.SortedFunc(maps.Keys(counts), func(a, b verb) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.many, b.many), cmp.Compare(a.object, b.object))
	})
	var texts []string
	for _, group := range groups[:min(len(groups), mostNamed)] {
		if counts[group] == 1 {
			texts = append(texts, "1 node "+group.one+" "+group.object)
		} else {
			texts = append(texts, fmt.Sprintf("%d nodes %s %s", counts[group], group.many, group.object))
		}
	}
	if len(groups) > mostNamed {
		texts = append(texts, "other nodes lack other parts")
	}
	return strings.Join(texts, "; ")
}

// lacking returns the requested resources of which a node has less.
func lacking(node *corev1.Node, requests corev1.ResourceList, names []corev1.ResourceName) (less []corev1.ResourceName) {
	for _, name := range names {
		has, wants := node.Status.Allocatable[name], requests[name]
		if has.Cmp(wants) < 0 {
			less = append(less, name)
		}
	}
	return less
}

// explainLacking returns the resources of which each node has too little. If another node lacks each of them, it returns what the first node lacks.
func explainLacking(left []*corev1.Node, requests corev1.ResourceList, names []corev1.ResourceName) string {
	everywhere := slices.DeleteFunc(slices.Clone(names), func(name corev1.ResourceName) bool {
		return slices.ContainsFunc(left, func(node *corev1.Node) bool { return len(lacking(node, requests, []corev1.ResourceName{name})) == 0 })
	})
	if len(everywhere) == 0 {
		return listQuantities(requests, slices.Clone(names)) + " together"
	}
	return listQuantities(requests, everywhere)
}

// explainLabels names the labels of the node selector that no node has.
func explainLabels(of *corev1.Pod, left []*corev1.Node) string {
	var missing []string
	for key, value := range of.Spec.NodeSelector {
		if !slices.ContainsFunc(left, func(node *corev1.Node) bool { has, found := node.Labels[key]; return found && has == value }) {
			missing = append(missing, quote(key+"="+value))
		}
	}
	slices.Sort(missing)
	const remedy = ": label a node, or correct nodeSelector, affinity and architecture of the VM"
	switch {
	case len(missing) == 1:
		return "no node has label " + missing[0] + remedy
	case len(missing) > 1:
		return "no node has labels " + listNames(missing) + remedy
	case len(of.Spec.NodeSelector) == 0:
		return "no node matches affinity.nodeAffinity of the guest" + remedy
	}
	return "no node has all labels of nodeSelector and matches affinity.nodeAffinity of the guest" + remedy
}

// temporaryTaints are the taints by which Kubernetes marks a node that is away for now. Administrators set the others.
var temporaryTaints = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable, corev1.TaintNodeMemoryPressure,
	corev1.TaintNodeDiskPressure, corev1.TaintNodeNetworkUnavailable, corev1.TaintNodePIDPressure, corev1.TaintNodeOutOfService,
	"node.cloudprovider.kubernetes.io/uninitialized"}

func isTemporary(taint *corev1.Taint) bool { return slices.Contains(temporaryTaints, taint.Key) }

func lasts(taint *corev1.Taint) bool { return !isTemporary(taint) }

// untolerated returns a taint of the chosen ones that keeps a pod from a node, nil for none. As in the scheduler, spec.unschedulable counts as a taint.
func untolerated(of *corev1.Pod, node *corev1.Node, chosen func(*corev1.Taint) bool) *corev1.Taint {
	taints := slices.Clone(node.Spec.Taints)
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	taint, found := scheduling.FindMatchingUntoleratedTaint(klog.Background(), taints, of.Spec.Tolerations, func(taint *corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && chosen(taint)
	}, true)
	if !found {
		return nil
	}
	return &taint
}

// isReady reports whether no condition says that a node is not ready. A node without the condition counts as ready, because its taints tell otherwise.
func isReady(node *corev1.Node) bool {
	return !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}
