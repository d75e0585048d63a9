package admit

import (
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// RefusedByRuntime returns the fields of an explicit VMI because of which the runtime of the cluster can never start the guest; none if KubeVirt runs guests,
// or if the runtime is not known. The cluster's nodes, quotas and claims do not count: they change, and a dry run, a restore or a node that is added later must
// not depend on them.
func RefusedByRuntime(explicit *v1.VirtualMachineInstance, cluster config.Cluster) field.ErrorList {
	if !cluster.Limits.RunsInPods() {
		return nil
	}
	refused, _ := pod.Judge(explicit, cluster.Pods.StateClass)
	return refused
}

// refusedByRuntime is RefusedByRuntime with the path of the VMI in what the user wrote, nil for a VMI.
func (in Input) refusedByRuntime(explicit *v1.VirtualMachineInstance, root *field.Path) field.ErrorList {
	refused := RefusedByRuntime(explicit, in.Cluster)
	if root != nil {
		for _, err := range refused {
			err.Field = root.String() + "." + err.Field
		}
	}
	return refused
}
