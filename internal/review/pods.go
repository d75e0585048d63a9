package review

import (
	"strings"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	v1 "kubevirt.io/api/core/v1"
)

// podWarnings name each field with which no pod of Kiln starts an explicit VMI: the VM is admitted, and its guest never starts there. It is no refusal, because
// launchers on bare machines serve most of the fields; beside KubeVirt, Kiln starts no guests. The event of a guest that does not start gives the reason.
func podWarnings(explicit *v1.VirtualMachineInstance, cluster config.Cluster) (warnings []string) {
	if explicit == nil || cluster.Limits.KubeVirtGuests {
		return nil
	}
	for _, err := range pod.Judge(explicit, cluster.Pods.StateClass) {
		warnings = append(warnings, "no pod starts this guest: "+strings.TrimPrefix(err.Field, "spec.")+"; see docs/reference/pods.md")
	}
	return warnings
}

// judgeExplicit is admit.Judge with the warnings about pods.
func judgeExplicit(explicit *v1.VirtualMachineInstance, in admit.Input) admit.Verdict {
	verdict := admit.Judge(explicit, in)
	if len(verdict.Errors) == 0 {
		verdict.Warnings = append(verdict.Warnings, podWarnings(explicit, in.Cluster)...)
	}
	return verdict
}
