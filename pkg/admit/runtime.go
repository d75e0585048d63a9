package admit

import (
	"github.com/kilnvm/kiln/pkg/pod"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// refusedByRuntime returns the fields of an explicit VMI because of which the runtime of the cluster can never start the guest. root is the path of the VMI in
// what the user wrote, nil for a VMI. The cluster's nodes, quotas and claims do not count: they change, and a dry run, a restore or a node that is added later
// must not depend on them.
func (in Input) refusedByRuntime(explicit *v1.VirtualMachineInstance, root *field.Path) field.ErrorList {
	if !in.Cluster.Limits.RunsInPods() {
		return nil
	}
	refused, _ := pod.Judge(explicit, in.Cluster.Pods.StateClass)
	if root != nil {
		for _, err := range refused {
			err.Field = root.String() + "." + err.Field
		}
	}
	return refused
}
