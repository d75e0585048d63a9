package review

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// addRuntimeWarnings adds the warnings of the runtime about a VM that passed stage 1.
func (r Reviewer) addRuntimeWarnings(reviewed *VM) {
	if reviewed.Allowed() && !reviewed.Unknown() {
		setters := func() func(string) string { return admit.Setters(reviewed.Meant, reviewed.Input) }
		reviewed.Warnings = append(reviewed.Warnings, r.runtimeWarnings(reviewed.Explicit, reviewed.configuration, setters)...)
	}
}

// runtimeWarnings returns the warnings of the runtime about an explicit VMI that it may start. If guests run in pods or on bare machines, these are the fields
// without effect there. If it is not known how guests run, such as offline, these are the fields with which no pod starts the guest: launchers on bare machines
// and KubeVirt support most of them. setters returns a function that names who set the field at a path (admit.Setters); runtimeWarnings calls setters only if
// there is a warning.
func (r Reviewer) runtimeWarnings(explicit *v1.VirtualMachineInstance, cluster config.Cluster, setters func() func(path string) string) (warnings []string) {
	if explicit == nil || cluster.Limits.KubeVirtGuests {
		return nil
	}
	refused, without := admit.WithoutEffect(explicit, cluster)
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
	for i, field := range without {
		if more := len(without) - i; i == admit.MostShownEffects && !r.EachEffect {
			return append(warnings, fmt.Sprintf("further fields that have no effect %s: %d; 'kubectl kiln validate --runtime %s' lists them",
				placeOf[cluster.Limits.Runtime], more, cluster.Limits.Runtime))
		}
		warnings = append(warnings, fieldOf(field.Path.String())+" "+field.Reason)
	}
	for _, err := range refused {
		warnings = append(warnings, "no pod starts this guest: "+fieldOf(err.Field)+"; see docs/reference/pods.md")
	}
	return warnings
}

// placeOf says where the guests of a runtime run.
var placeOf = map[config.Runtime]string{config.RuntimePod: "in a pod", config.RuntimeNode: "on a bare machine"}

// judgeExplicit returns the verdict of admit.JudgeMade with the warnings of the runtime. written is the VMI that was made explicit.
func (r Reviewer) judgeExplicit(explicit, written *v1.VirtualMachineInstance, in admit.Input) admit.Verdict {
	verdict := admit.JudgeMade(explicit, written, in)
	if len(verdict.Errors) == 0 {
		setters := func() func(string) string { return admit.SettersOfVMI(written, in) }
		verdict.Warnings = append(verdict.Warnings, r.runtimeWarnings(explicit, in.Cluster, setters)...)
	}
	return verdict
}
