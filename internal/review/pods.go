package review

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	v1 "kubevirt.io/api/core/v1"
)

// podWarnings returns the warnings of the runtime about an explicit VMI that it may start. If guests run in pods, these are the fields without effect. If it is
// not known how guests run, such as offline, these are the fields with which no pod starts the guest: launchers on bare machines and KubeVirt support most of
// them. setters returns a function that names who set the field at a path (admit.Setters); podWarnings calls setters only if there is a warning.
func (r Reviewer) podWarnings(explicit *v1.VirtualMachineInstance, cluster config.Cluster, setters func() func(path string) string) (warnings []string) {
	if explicit == nil || cluster.Limits.KubeVirtGuests || cluster.Limits.Runtime == config.RuntimeNode {
		return nil
	}
	refused, without := pod.Judge(explicit, cluster.Pods.StateClass)
	if len(refused)+len(without) == 0 {
		return nil
	}
	setter := setters()
	fieldOf := func(path string) string {
		at := strings.TrimPrefix(path, "spec.")
		if by := setter(path); by != "" {
			at = by + " sets " + at
		}
		return at
	}
	if cluster.Limits.Runtime == config.RuntimePod {
		for i, field := range without {
			if more := len(without) - i; i == mostEffects && !r.EachEffect {
				return append(warnings, fmt.Sprintf("further fields that have no effect in a pod: %d; 'kubectl kiln validate --runtime pod' lists them", more))
			}
			warnings = append(warnings, fieldOf(field.Path.String())+" "+field.Reason)
		}
		return warnings
	}
	for _, err := range refused {
		warnings = append(warnings, "no pod starts this guest: "+fieldOf(err.Field)+"; see docs/reference/pods.md")
	}
	return warnings
}

// mostEffects bounds the warnings about fields without effect in an answer of admission.
const mostEffects = 3

// judgeExplicit returns the verdict of admit.JudgeMade with the warnings about pods. written is the VMI that was made explicit.
func (r Reviewer) judgeExplicit(explicit, written *v1.VirtualMachineInstance, in admit.Input) admit.Verdict {
	verdict := admit.JudgeMade(explicit, written, in)
	if len(verdict.Errors) == 0 {
		setters := func() func(string) string { return admit.SettersOfVMI(written, in) }
		verdict.Warnings = append(verdict.Warnings, r.podWarnings(explicit, in.Cluster, setters)...)
	}
	return verdict
}
