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

func (v verdicts) take(leaf, verdict string) {
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

// guest tries each leaf of a sample.
func (t trial) guest(sample *v1.VirtualMachineInstance) error {
	sparse, whole, err := t.legal(sample)
	if err != nil {
		return err
	}
	domain := rendered(whole.explicit, t.cluster)
	for _, leaf := range t.leaves {
		t.leaf(leaf, sparse, whole, domain)
	}
	return nil
}

// explicit is stage 1.
func (t trial) explicit(vmi *v1.VirtualMachineInstance) (*v1.VirtualMachineInstance, field.ErrorList) {
	o := admittedOnly(vmi, t.cluster)
	return o.explicit, o.refused
}

// leaf tries a leaf at all its places, until one is served.
func (t trial) leaf(leaf string, sparse *v1.VirtualMachineInstance, whole answer, domain outcome) {
	written := false
	for _, of := range []*v1.VirtualMachineInstance{sparse, whole.explicit} {
		spec, err := general(of.Spec)
		must(err)
		less, err := without(of, leaf)
		must(err)
		at := places(spec, leaf)
		if of != sparse && len(at) > 0 && written && t.found[leaf] != "" {
			return // stage 1 has not filled it
		}
		written = written || len(at) > 0
		for i, at := range at {
			if t.found[leaf] == Served {
				return
			}
			if slices.ContainsFunc(whole.warnings, func(w string) bool { return related(pathOf(w), at) }) {
				t.found.take(leaf, Warned)
				continue
			}
			tried := []*v1.VirtualMachineInstance{less[i]}
			if others := replaced(of, leaf); i < len(others) {
				tried = append(tried, others[i])
			}
			if verdict := t.changed(leaf, tried, of == sparse, written, whole, domain); verdict != "" {
				t.found.take(leaf, verdict)
			}
		}
	}
}

// changed is the verdict on a leaf by what becomes of VMIs that differ in it alone; empty if nothing does. A leaf that no VMI can be without, and that can
// have no other value, is served.
func (t trial) changed(leaf string, tried []*v1.VirtualMachineInstance, sparse, written bool, whole answer, domain outcome) string {
	refused, best := 0, ""
	for _, variant := range tried {
		if sparse {
			explicit, errs := t.explicit(variant)
			if len(errs) > 0 {
				refused++
				continue
			}
			variant = explicit
		}
		if other := rendered(variant, t.cluster); len(other.refused) > 0 {
			refused++
			continue
		} else if len(changed(domain, other)) > 0 {
			return Served
		}
		if !binds(leaf) && (best == ByPod || differs(t.runtime, variant, whole)) {
			best = ByPod
			continue
		}
		is := t.of(variant, t.cluster)
		switch {
		case len(is.refused) > 0:
			refused++
		case is.bound != whole.bound || len(changed(whole.outcome, is.outcome)) > 0:
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

// binds reports whether a launcher may look at a leaf when it binds. Others need not be bound to see whether the pod has them.
func binds(leaf string) bool {
	return strings.HasPrefix(leaf, "volumes") || strings.HasPrefix(leaf, "domain.") || leaf == "hostname"
}

// differs reports whether a VMI has another pod.
func differs(r runtime, variant *v1.VirtualMachineInstance, whole answer) bool {
	pod, _, errs := r.judge(variant)
	return len(errs) == 0 && pod != whole.pod
}
