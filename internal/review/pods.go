package review

import (
	"strings"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	v1 "kubevirt.io/api/core/v1"
)

// podWarnings returns a warning for each field with which no pod of Kiln starts an explicit VMI. The fields are not refused, because launchers on bare machines
// support most of them. If KubeVirt runs the guests, there are no warnings. setters returns a function that names who set the field at a path
// (admit.Setters); podWarnings calls setters only if there is a warning.
func podWarnings(explicit *v1.VirtualMachineInstance, cluster config.Cluster, setters func() func(path string) string) (warnings []string) {
	if explicit == nil || cluster.Limits.KubeVirtGuests {
		return nil
	}
	errs := pod.Judge(explicit, cluster.Pods.StateClass)
	if len(errs) == 0 {
		return nil
	}
	setter := setters()
	for _, err := range errs {
		at := strings.TrimPrefix(err.Field, "spec.")
		if by := setter(err.Field); by != "" {
			at = by + " sets " + at
		}
		warnings = append(warnings, "no pod starts this guest: "+at+"; see docs/reference/pods.md")
	}
	return warnings
}

// judgeExplicit returns the verdict of admit.JudgeMade with the warnings about pods. written is the VMI that was made explicit.
func judgeExplicit(explicit, written *v1.VirtualMachineInstance, in admit.Input) admit.Verdict {
	verdict := admit.JudgeMade(explicit, written, in)
	if len(verdict.Errors) == 0 {
		setters := func() func(string) string { return admit.SettersOfVMI(written, in) }
		verdict.Warnings = append(verdict.Warnings, podWarnings(explicit, in.Cluster, setters)...)
	}
	return verdict
}
