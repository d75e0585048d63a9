package admit

import (
	"github.com/kilnvm/kiln/pkg/baremachine"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// NoEffect is a field of an explicit VMI that has no effect in the runtime of the cluster.
type NoEffect struct {
	// Path starts at the VMI.
	Path *field.Path
	// Reason completes the sentence that begins with the path.
	Reason string
}

// MostShownEffects bounds the fields without effect that warnings and a condition name. 'kubectl kiln validate' lists all.
const MostShownEffects = 3

// RefusedByRuntime returns the fields of an explicit VMI because of which the runtime of the cluster can never start the guest; none if KubeVirt runs guests,
// or if the runtime is not known. The cluster's nodes, quotas and claims do not count: they change, and a dry run, a restore or a node that is added later must
// not depend on them.
func RefusedByRuntime(explicit *v1.VirtualMachineInstance, cluster config.Cluster) field.ErrorList {
	switch {
	case cluster.Limits.RunsInPods():
		refused, _ := pod.Judge(explicit, cluster.Pods.StateClass)
		return refused
	case cluster.Limits.RunsOnMachines():
		return baremachine.RefusedFields(explicit)
	}
	return nil
}

// WithoutEffect returns the fields of an explicit VMI that have no effect in the runtime of the cluster. If the runtime is not known, it returns the fields
// with which no pod starts the guest.
func WithoutEffect(explicit *v1.VirtualMachineInstance, cluster config.Cluster) (refused field.ErrorList, without []NoEffect) {
	if cluster.Limits.KubeVirtGuests {
		return nil, nil
	}
	if cluster.Limits.RunsOnMachines() {
		for _, field := range baremachine.WithoutEffect(explicit) {
			without = append(without, NoEffect(field))
		}
		return nil, without
	}
	refused, fields := pod.Judge(explicit, cluster.Pods.StateClass)
	if cluster.Limits.RunsInPods() {
		for _, field := range fields {
			without = append(without, NoEffect(field))
		}
		return nil, without
	}
	return refused, nil
}

// refusedByRuntime is RefusedByRuntime with the path of the VMI in what the user wrote, nil for a VMI. A caller leaves out the errors below fields that have an
// error already, such as a volume without a source.
func (in Input) refusedByRuntime(explicit *v1.VirtualMachineInstance, root *field.Path) field.ErrorList {
	refused := RefusedByRuntime(explicit, in.Cluster)
	if root != nil {
		for _, err := range refused {
			err.Field = root.String() + "." + err.Field
		}
	}
	return refused
}
