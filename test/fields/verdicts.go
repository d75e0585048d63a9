package fields

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Verdicts of a runtime on a leaf, the better ones first. The best of all places counts.
const (
	Served  = "served"
	ByPod   = "served by the pod instead"
	Warned  = "warned of"
	Refused = "refused"
)

var ranks = []string{Served, ByPod, Warned, NotSeen, Refused}

// verdicts has the verdict on each leaf that a runtime has one on.
type verdicts map[string]string

func (v verdicts) addVerdict(leaf, verdict string) {
	if rank := slices.Index(ranks, v[leaf]); rank < 0 || slices.Index(ranks, verdict) < rank {
		v[leaf] = verdict
	}
}

// trial is one sample in one runtime.
type trial struct {
	runtime
	cluster config.Cluster
	leaves  []string
	found   verdicts
}

// trySample tries each leaf of a sample.
func (t trial) trySample(sample *v1.VirtualMachineInstance) error {
	sparse, whole, err := t.reduceUntilLegal(sample)
	if err != nil {
		return err
	}
	domain := renderExplicit(whole.explicit, t.cluster)
	for _, leaf := range t.leaves {
		t.tryLeaf(leaf, sparse, whole, domain)
	}
	return nil
}

// admitExplicit runs stage 1.
func (t trial) admitExplicit(vmi *v1.VirtualMachineInstance) (*v1.VirtualMachineInstance, field.ErrorList) {
	o := admittedOnly(vmi, t.cluster)
	return o.explicit, o.refused
}

// tryLeaf tries a leaf at all its places, until one is served.
func (t trial) tryLeaf(leaf string, sparse *v1.VirtualMachineInstance, whole answer, domain outcome) {
	written := false
	for _, of := range []*v1.VirtualMachineInstance{sparse, whole.explicit} {
		spec, err := asJSONObject(of.Spec)
		must(err)
		less, err := variantsWithout(of, leaf)
		must(err)
		at := placesOfLeaf(spec, leaf)
		if of != sparse && len(at) > 0 && written && t.found[leaf] != "" {
			return // stage 1 has not filled it
		}
		written = written || len(at) > 0
		for i, at := range at {
			if t.found[leaf] == Served {
				return
			}
			if slices.ContainsFunc(whole.warnings, func(w string) bool { return areRelated(pathOf(w), at) }) {
				t.found.addVerdict(leaf, Warned)
				continue
			}
			tried := []*v1.VirtualMachineInstance{less[i]}
			if others := variantsReplaced(of, leaf); i < len(others) {
				tried = append(tried, others[i])
			}
			if verdict := t.judgeVariants(leaf, tried, of == sparse, written, whole, domain); verdict != "" {
				t.found.addVerdict(leaf, verdict)
			}
		}
	}
}

// judgeVariants returns the verdict on a leaf by comparing VMIs that differ only in it; empty if the leaf changes nothing. A leaf that no VMI can be without,
// and that can have no other value, is served.
func (t trial) judgeVariants(leaf string, tried []*v1.VirtualMachineInstance, sparse, written bool, whole answer, domain outcome) string {
	refused, best := 0, ""
	for _, variant := range tried {
		if sparse {
			explicit, errs := t.admitExplicit(variant)
			if len(errs) > 0 {
				refused++
				continue
			}
			variant = explicit
		}
		if other := renderExplicit(variant, t.cluster); len(other.refused) > 0 {
			refused++
			continue
		} else if len(changedElements(domain, other)) > 0 {
			return Served
		}
		if !mayMatterForBinding(leaf) && (best == ByPod || hasOtherPod(t.runtime, variant, whole)) {
			best = ByPod
			continue
		}
		is := t.runStages(variant, t.cluster)
		switch {
		case len(is.refused) > 0:
			refused++
		case is.bound != whole.bound || len(changedElements(whole.outcome, is.outcome)) > 0:
			return Served
		case is.pod != whole.pod:
			best = ByPod
		}
	}
	if best == "" && written && refused == len(tried) {
		return Served
	}
	return best
}

// mayMatterForBinding reports whether a launcher may look at a leaf when it binds. Others need not be bound to see whether the pod has them.
func mayMatterForBinding(leaf string) bool {
	return strings.HasPrefix(leaf, "volumes") || strings.HasPrefix(leaf, "domain.") || leaf == "hostname"
}

// hasOtherPod reports whether a VMI has another pod.
func hasOtherPod(r runtime, variant *v1.VirtualMachineInstance, whole answer) bool {
	pod, _, errs := r.judge(variant)
	return len(errs) == 0 && pod != whole.pod
}
