// Package fleet judges by the nodes of a cluster whether guests can start again with their recorded CPUs: a kernel, a microcode or an image may take features
// away, and a guest that runs notices it at its next start.
package fleet

import (
	"cmp"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/internal/placeable"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Fleet has the nodes of a cluster with the CPUs that they offer. Most nodes offer the same as others, so each offer is judged once for a CPU.
type Fleet struct {
	// nodes are sorted by name. offers has an index into kinds for each node, or silent.
	nodes  []corev1.Node
	offers []int
	kinds  []nodecpu.Offer

	seed      maphash.Seed
	summaries map[summaryKey]Summary
}

// silent is the offer of a node for which no agent has reported features.
const silent = -1

// New reads the labels of nodes that the agent of a source has written.
func New(source nodecpu.Source, nodes []corev1.Node) *Fleet {
	f := &Fleet{seed: maphash.MakeSeed(), summaries: map[summaryKey]Summary{}}
	f.nodes = slices.SortedFunc(slices.Values(nodes), func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	known := map[uint64]int{}
	for i := range f.nodes {
		offer, reported := source.Read(f.nodes[i].Labels)
		if !reported {
			f.offers = append(f.offers, silent)
			continue
		}
		key := hashTexts(f.seed, slices.Sorted(maps.Keys(offer.Features)), slices.Sorted(maps.Keys(offer.Models)), []string{offer.Vendor})
		kind, found := known[key]
		if !found {
			kind = len(f.kinds)
			known[key], f.kinds = kind, append(f.kinds, offer)
		}
		f.offers = append(f.offers, kind)
	}
	return f
}

// Nodes returns the names of the nodes that report what they offer, and of the others, sorted.
func (f *Fleet) Nodes() (reports, silentOnes []string) {
	for i := range f.nodes {
		if f.offers[i] == silent {
			silentOnes = append(silentOnes, f.nodes[i].Name)
		} else {
			reports = append(reports, f.nodes[i].Name)
		}
	}
	return reports, silentOnes
}

// hashTexts returns a hash of lists. Nobody can make two lists with one hash, because the seed is random.
func hashTexts(seed maphash.Seed, lists ...[]string) uint64 {
	var hash maphash.Hash
	hash.SetSeed(seed)
	for _, list := range lists {
		for _, text := range list {
			hash.WriteString(text)
			hash.WriteByte(0)
		}
		hash.WriteByte(1)
	}
	return hash.Sum64()
}

// PodOf returns a pod with the fields of a VMI that narrow its nodes.
func PodOf(spec *v1.VirtualMachineInstanceSpec) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{}, Affinity: spec.Affinity, Tolerations: spec.Tolerations}}
	if spec.Architecture != "" {
		pod.Spec.NodeSelector[corev1.LabelArchStable] = strings.ToLower(spec.Architecture)
	}
	maps.Copy(pod.Spec.NodeSelector, spec.NodeSelector)
	return pod
}

// Outlook is what becomes of a guest at its next start.
type Outlook string

// Outlooks. The values are labels of the metric kiln_guest_cpus.
const (
	// Everywhere: each node that the guest may start on offers its recorded CPU.
	Everywhere Outlook = "everywhere"
	// Somewhere: some of these nodes lack it.
	Somewhere Outlook = "somewhere"
	// Nowhere: all of these nodes lack it, so the guest cannot start again.
	Nowhere Outlook = "nowhere"
	// Unreported: no agent reports what these nodes offer.
	Unreported Outlook = "unreported"
)

// Judgement says which nodes offer a recorded CPU. Only nodes count that the guest may start on.
type Judgement struct {
	// Offering and Silent are names of nodes, sorted. No agent reports what the silent ones offer.
	Offering, Silent []string
	// Lacking are the nodes that lack something, sorted by name.
	Lacking []Lacking
	// Mitigations are the features against flaws of the CPU that all reported nodes offer and the recorded CPU lacks.
	Mitigations []string
}

// Lacking is a node that lacks something of a recorded CPU.
type Lacking struct {
	Node string
	nodecpu.Lack
}

// Judge judges the recorded CPU of a guest whose pod selects nodes as the given one does.
func (f *Fleet) Judge(recorded *record.CPU, pod *corev1.Pod) (j Judgement) {
	lacks := map[int]nodecpu.Lack{}
	var offers []nodecpu.Offer
	for _, i := range placeable.Candidates(pod, f.nodes) {
		name, kind := f.nodes[i].Name, f.offers[i]
		if kind == silent {
			j.Silent = append(j.Silent, name)
			continue
		}
		lack, known := lacks[kind]
		if !known {
			lack = f.kinds[kind].Missing(recorded)
			lacks[kind], offers = lack, append(offers, f.kinds[kind])
		}
		if lack.Empty() {
			j.Offering = append(j.Offering, name)
		} else {
			j.Lacking = append(j.Lacking, Lacking{name, lack})
		}
	}
	j.Mitigations = lackedMitigations(offers, recorded)
	return j
}

// Offered is what some nodes offer.
type Offered struct {
	// Nodes are names, sorted.
	Nodes []string
	nodecpu.Offer
}

// Offers returns what the nodes offer that a pod may be scheduled to. Nodes that report nothing are left out.
func (f *Fleet) Offers(pod *corev1.Pod) (all []Offered) {
	at := map[int]int{}
	for _, i := range placeable.Candidates(pod, f.nodes) {
		kind := f.offers[i]
		if kind == silent {
			continue
		}
		n, known := at[kind]
		if !known {
			n = len(all)
			at[kind], all = n, append(all, Offered{Offer: f.kinds[kind]})
		}
		all[n].Nodes = append(all[n].Nodes, f.nodes[i].Name)
	}
	return all
}

// Summary is a Judgement without the names of all nodes.
type Summary struct {
	Outlook Outlook
	// Text is Judgement.Describe.
	Text string
}

// summaryKey identifies a CPU and the nodes that a guest may start on.
type summaryKey struct {
	cpu uint64
	pod string
}

// Summarize judges as Judge does. Guests with the same CPU that may start on the same nodes are judged once. It is not safe for concurrent use.
func (f *Fleet) Summarize(recorded *record.CPU, pod *corev1.Pod) (Summary, error) {
	placement, err := json.Marshal(&pod.Spec)
	if err != nil {
		return Summary{}, err
	}
	key := summaryKey{hashTexts(f.seed, []string{recorded.Requested, recorded.Model, recorded.Vendor}, recorded.Features), string(placement)}
	known, found := f.summaries[key]
	if !found {
		judged := f.Judge(recorded, pod)
		known = Summary{judged.Outlook(), judged.Describe()}
		f.summaries[key] = known
	}
	return known, nil
}

// Outlook returns what becomes of the guest.
func (j Judgement) Outlook() Outlook {
	switch {
	case len(j.Offering)+len(j.Lacking) == 0:
		return Unreported
	case len(j.Lacking) == 0:
		return Everywhere
	case len(j.Offering) > 0:
		return Somewhere
	}
	return Nowhere
}

// Nearest returns the node that lacks the fewest features; of equal ones the first by name. There must be one that lacks something.
func (j Judgement) Nearest() Lacking {
	return slices.MinFunc(j.Lacking, func(a, b Lacking) int { return cmp.Compare(len(a.Features), len(b.Features)) })
}

// Describe says what is missing on the node that lacks the fewest features; empty if no node lacks anything. It does not count nodes, so that the text stays
// while one node after the other changes.
func (j Judgement) Describe() string {
	what := ""
	switch j.Outlook() {
	case Somewhere:
		what = "some nodes lack the recorded CPU"
	case Nowhere:
		what = "no node offers the recorded CPU"
	default:
		return ""
	}
	nearest := j.Nearest()
	return what + "; missing on node '" + nearest.Node + "': " + nearest.String()
}
