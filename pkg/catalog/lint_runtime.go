package catalog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

var runtimeRules = []Rule{
	{"runtime/refused", Error, "the runtime of `--runtime` starts guests of each object",
		"leave the object out of catalogs for this runtime, or change what is refused"},
	{"runtime/refused-pair", Warning, "the runtime of `--runtime` starts guests of each pair whose instancetype meets the requirements of the preference",
		"name the partners in the description, or change what is refused in one of both"},
}

// assumedStateClass is the StorageClass of EFI variables and TPM states. A catalog is judged for clusters that have one: whether there is one is a matter of
// the cluster, and admission says it to the user.
const assumedStateClass = "assumed"

// judgeByRuntime finds the objects with which the runtime starts no guest, and the preferences with which it does not start guests of some instancetypes.
func (l *linter) judgeByRuntime() {
	if l.Cluster.Limits.Runtime == "" || l.Cluster.Limits.KubeVirtGuests {
		return
	}
	j := newRuntimeJudge(l)
	instancetypes, preferences := l.usableObjects()
	refused := func(o *Object) bool {
		why := j.refusalAlone(o, instancetypes, preferences)
		if why != "" {
			j.addFinding("runtime/refused", location{o, "spec"}, fmt.Sprintf("runtime '%s' refuses VMs with it: %s", j.cluster.Limits.Runtime, why))
		}
		return why != ""
	}
	instancetypes, preferences = slices.DeleteFunc(instancetypes, refused), slices.DeleteFunc(preferences, refused)
	for _, o := range preferences {
		j.judgePairs(o, instancetypes)
	}
}

// RefusedByRuntime returns why the runtime of the settings starts no guest of an object, by the keys of these objects. It is empty without a runtime.
func RefusedByRuntime(objects []*Object, settings Settings) map[Key]string {
	refused := map[Key]string{}
	if settings.Cluster.Limits.Runtime == "" || settings.Cluster.Limits.KubeVirtGuests {
		return refused
	}
	l := newLinter(objects, settings)
	l.prepareTrials(mostTrials)
	l.lintWithWebhookRules() // finds the objects that no VM can name
	j := newRuntimeJudge(l)
	instancetypes, preferences := l.usableObjects()
	for _, o := range slices.Concat(instancetypes, preferences) {
		if why := j.refusalAlone(o, instancetypes, preferences); why != "" {
			refused[o.Key()] = why
		}
	}
	return refused
}

func newRuntimeJudge(l *linter) *runtimeJudge {
	j := &runtimeJudge{linter: l, cluster: l.Cluster, unavoidable: map[string]map[string]bool{}}
	j.cluster.Pods.StateClass = cmp.Or(j.cluster.Pods.StateClass, assumedStateClass)
	return j
}

// runtimeJudge judges VMs by a runtime.
type runtimeJudge struct {
	*linter
	cluster config.Cluster
	// unavoidable are the refusals of the trial VM itself by architecture: no object of the catalog is the reason for them.
	unavoidable map[string]map[string]bool
}

// runtimeVerdict is the verdict of a runtime on VMs.
type runtimeVerdict struct {
	// known reports that a VM was admitted, so that the runtime could judge it.
	known bool
	// refused are the reasons for which the runtime starts none of them.
	refused field.ErrorList
}

// refusalAlone returns why the runtime starts no guest of an object; empty if it starts guests of the object. The object is tried without others of the
// catalog, a preference with an instancetype that has exactly what it requires. An object that no such VM can name is tried with the objects of the catalog
// that fit.
func (j *runtimeJudge) refusalAlone(o *Object, instancetypes, preferences []*Object) string {
	if j.lacksTrials() {
		return ""
	}
	alone, others := j.sets[o], preferences
	if o.Preference != nil {
		alone.Instancetype, others = justEnough(o.Preference), instancetypes
	}
	verdict := j.judgeSet(alone, architecturesOf(o))
	for i := 0; i < len(others) && !verdict.known; i++ {
		if both := joinSets(j.sets[o], j.sets[others[i]]); o.sharesNamespace(others[i]) && instancetype.Fits(both) {
			verdict = j.judgeSet(both, architecturesOf(o, others[i]))
		}
	}
	return reasonsOf(verdict.refused)
}

// judgePairs adds a finding if the runtime refuses a preference with some instancetypes, although it starts guests of both.
func (j *runtimeJudge) judgePairs(o *Object, instancetypes []*Object) {
	var refused []string
	var errs field.ErrorList
	fitting := 0
	for _, other := range instancetypes {
		both := joinSets(j.sets[o], j.sets[other])
		if !o.sharesNamespace(other) || !instancetype.Fits(both) {
			continue
		}
		if j.trials.left <= 0 {
			j.untried++
			return
		}
		fitting++
		if verdict := j.judgeSet(both, architecturesOf(o, other)); len(verdict.refused) > 0 {
			if refused = append(refused, other.Name); errs == nil {
				errs = verdict.refused
			}
		}
	}
	if len(refused) > 0 {
		j.addFinding("runtime/refused-pair", location{o, "spec"}, fmt.Sprintf(
			"runtime '%s' refuses VMs with it and %d of the %d instancetypes that fit, such as '%s': %s",
			j.cluster.Limits.Runtime, len(refused), fitting, refused[0], reasonsOf(errs)))
	}
}

// judgeSet returns the verdict on a VM with a set of objects, on the first of the architectures on which it is admitted. EFI is tried too, because memory
// encryption needs it, and only VMs and preferences can set it.
func (j *runtimeJudge) judgeSet(set instancetype.Set, architectures []string) runtimeVerdict {
	for _, architecture := range architectures {
		for _, efi := range []bool{false, true} {
			vmi, errs := j.trials.explicitVM(trialVM{Set: set, architecture: architecture, efi: efi})
			if len(errs) == 0 {
				return runtimeVerdict{known: true, refused: j.refusedFields(vmi)}
			}
		}
	}
	return runtimeVerdict{}
}

// refusedFields returns the refusals of an explicit VMI that the trial VM without objects does not have.
func (j *runtimeJudge) refusedFields(vmi *v1.VirtualMachineInstance) field.ErrorList {
	unavoidable, found := j.unavoidable[vmi.Spec.Architecture]
	if !found {
		unavoidable = map[string]bool{}
		if bare, errs := j.trials.explicitVM(trialVM{architecture: vmi.Spec.Architecture}); len(errs) == 0 {
			for _, err := range admit.RefusedByRuntime(bare, j.cluster) {
				unavoidable[err.Field] = true
			}
		}
		j.unavoidable[vmi.Spec.Architecture] = unavoidable
	}
	return slices.DeleteFunc(admit.RefusedByRuntime(vmi, j.cluster), func(err *field.Error) bool { return unavoidable[err.Field] })
}
