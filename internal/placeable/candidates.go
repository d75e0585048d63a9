package placeable

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Candidates returns the indices of the nodes that a pod may be scheduled to by their labels and lasting taints. A node that is away for now counts.
func Candidates(of *corev1.Pod, nodes []corev1.Node) (found []int) {
	affinity := nodeaffinity.GetRequiredNodeAffinity(of)
	for i := range nodes {
		if matches, err := affinity.Match(&nodes[i]); err == nil && matches && untolerated(of, &nodes[i], lasts) == nil {
			found = append(found, i)
		}
	}
	return found
}
