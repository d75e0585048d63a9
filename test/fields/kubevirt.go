package fields

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// NotSeen is a verdict only of KubeVirt: it accepts the leaf, and neither domain, pod nor data of the guest change.
const NotSeen = "not seen"

// reply is what test/kubevirt/answers says of a VMI.
type reply struct {
	Refused []struct{ Field, Message string }
	Spec    *v1.VirtualMachineInstanceSpec
	Pod     json.RawMessage
	Domain  string
	Data    json.RawMessage
	Error   string
}

// whyRefused returns why a VMI does not start, empty if it starts.
func (r *reply) whyRefused() string {
	if len(r.Refused) > 0 {
		return r.Refused[0].Message
	}
	return r.Error
}

// finding is a verdict of KubeVirt, and what shows it.
type finding struct {
	Verdict  string `json:"verdict"`
	Evidence string `json:"evidence"`
}

// kubeVirt tries samples in KubeVirt's own code, which answers over pipes.
type kubeVirt struct {
	ask     *json.Encoder
	answers *json.Decoder
	replies map[string]*reply
	leaves  []string
	found   map[string]finding
}

func newKubeVirt(in io.Writer, out io.Reader, leaves []string) *kubeVirt {
	return &kubeVirt{json.NewEncoder(in), json.NewDecoder(out), map[string]*reply{}, leaves, map[string]finding{}}
}

// askAbout asks for what becomes of a VMI as a user writes it. Of two VMIs that are equal one is asked for.
func (k *kubeVirt) askAbout(vmi *v1.VirtualMachineInstance) *reply {
	raw, err := json.Marshal(vmi)
	must(err)
	if r := k.replies[string(raw)]; r != nil {
		return r
	}
	var r reply
	must(k.ask.Encode(vmi))
	must(k.answers.Decode(&r))
	k.replies[string(raw)] = &r
	return &r
}

func (k *kubeVirt) recordVerdict(leaf, verdict, evidence string) {
	order := []string{Served, ByPod, NotSeen, Refused}
	if rank := slices.Index(order, k.found[leaf].Verdict); rank < 0 || slices.Index(order, verdict) < rank {
		k.found[leaf] = finding{verdict, evidence}
	}
}

// trySample tries each leaf of a sample, and of what the mutating webhook makes of it.
func (k *kubeVirt) trySample(sample *v1.VirtualMachineInstance) error {
	sparse, whole, err := k.reduceUntilLegal(sample)
	if err != nil {
		return err
	}
	mutated := sparse.DeepCopy()
	mutated.Spec = *whole.Spec
	for _, leaf := range k.leaves {
		written := k.tryLeaf(leaf, sparse, whole)
		if !written || k.found[leaf].Verdict == "" {
			k.tryLeaf(leaf, mutated, whole)
		}
	}
	return nil
}

// tryLeaf tries a leaf at all its places in a VMI, until one is served, and reports whether it has any.
func (k *kubeVirt) tryLeaf(leaf string, vmi *v1.VirtualMachineInstance, whole *reply) bool {
	spec, err := asJSONObject(vmi.Spec)
	must(err)
	less, err := variantsWithout(vmi, leaf)
	must(err)
	others := append(variantsReplaced(vmi, leaf), variantsRelisted(vmi, leaf)...)
	for i := range placesOfLeaf(spec, leaf) {
		if k.found[leaf].Verdict == Served {
			break
		}
		tried := []*v1.VirtualMachineInstance{less[i]}
		if i < len(others) {
			tried = append(tried, others[i])
		}
		k.judgePlaces(leaf, tried, whole)
	}
	return len(less) > 0
}

// variantsRelisted returns variants with another first word of a list. It returns none for other leaves.
func variantsRelisted(vmi *v1.VirtualMachineInstance, leaf string) []*v1.VirtualMachineInstance {
	found, err := variantsOf(vmi, leaf, func(holder map[string]any, name string) bool {
		list, _ := holder[name].([]any)
		if len(list) == 0 {
			return false
		}
		word, is := list[0].(string)
		list[0] = word + "x"
		return is
	})
	must(err)
	return found
}

// judgePlaces compares VMIs that differ only in a leaf with the whole one. A leaf that no VMI can be without, and that can have no other value, is served.
func (k *kubeVirt) judgePlaces(leaf string, tried []*v1.VirtualMachineInstance, whole *reply) {
	reasons := []string{}
	for _, variant := range tried {
		r := k.askAbout(variant)
		if r.whyRefused() != "" {
			reasons = append(reasons, r.whyRefused())
			continue
		}
		was, is := outcome{elements: map[string][]string{}}, outcome{elements: map[string][]string{}}
		was.addElements(whole.Domain)
		is.addElements(r.Domain)
		if elements := changedElements(was, is); len(elements) > 0 {
			k.recordVerdict(leaf, Served, "domain: "+strings.Trim(shortenList(elements)[0], "`"))
		} else if string(r.Data) != string(whole.Data) {
			k.recordVerdict(leaf, Served, "data of the guest")
		} else if string(r.Pod) != string(whole.Pod) {
			k.recordVerdict(leaf, ByPod, "pod")
		} else {
			k.recordVerdict(leaf, NotSeen, "nothing changes")
		}
	}
	if len(reasons) == len(tried) {
		k.recordVerdict(leaf, Served, "otherwise refused: "+shortenReason(reasons[0]))
	}
}

// shortenReason returns the beginning of a reason, because some reasons repeat the whole object.
func shortenReason(reason string) string {
	line, _, _ := strings.Cut(reason, "\n")
	return line[:min(len(line), 100)]
}

// reduceUntilLegal takes from a sample what KubeVirt refuses, until it starts. What is taken away is refused.
func (k *kubeVirt) reduceUntilLegal(vmi *v1.VirtualMachineInstance) (*v1.VirtualMachineInstance, *reply, error) {
	for range 16 {
		r := k.askAbout(vmi)
		reason := r.whyRefused()
		if reason == "" {
			return vmi, r, nil
		}
		less := k.withoutRefused(vmi, r)
		if less == nil {
			return nil, nil, fmt.Errorf("%s does not start: %s", vmi.Name, reason)
		}
		spec, err := asJSONObject(vmi.Spec)
		must(err)
		left, err := asJSONObject(less.Spec)
		must(err)
		for _, leaf := range k.leaves {
			if len(placesOfLeaf(left, leaf)) < len(placesOfLeaf(spec, leaf)) {
				k.recordVerdict(leaf, Refused, shortenReason(reason))
			}
		}
		vmi = less
	}
	return nil, nil, fmt.Errorf("%s does not start: %s", vmi.Name, k.askAbout(vmi).whyRefused())
}

// withoutRefused returns a VMI without what it is refused for: the smallest part without which it starts, or else without which that reason is gone. Paths of
// reasons do not help: not every reason has one, and not every one is a path of the VMI.
func (k *kubeVirt) withoutRefused(vmi *v1.VirtualMachineInstance, refused *reply) (best *v1.VirtualMachineInstance) {
	for _, at := range k.partsOf(vmi) {
		less, err := withoutPath(vmi, at)
		must(err)
		if strings.HasSuffix(at, "]") {
			less = withoutNamed(vmi, less)
		}
		r := k.askAbout(less)
		if r.whyRefused() == "" {
			return less
		}
		if best == nil && len(r.Refused) <= max(len(refused.Refused)-1, 0) && r.whyRefused() != refused.whyRefused() {
			best = less
		}
	}
	return best
}

// partsOf returns the paths of a VMI's leaves and of what holds them, the innermost ones first.
func (k *kubeVirt) partsOf(vmi *v1.VirtualMachineInstance) (found []string) {
	spec, err := asJSONObject(vmi.Spec)
	must(err)
	for _, leaf := range k.leaves {
		for _, at := range placesOfLeaf(spec, leaf) {
			for ; at != "" && at != "domain" && at != "domain.devices"; at = parentPath(at) {
				if !slices.Contains(found, at) {
					found = append(found, at)
				}
			}
		}
	}
	depth := func(path string) int { return strings.Count(path, ".") + strings.Count(path, "[") }
	slices.SortStableFunc(found, func(a, b string) int { return depth(b) - depth(a) })
	return found
}

// findingsAsYAML writes findings a line a leaf, as YAML.
func findingsAsYAML(found map[string]finding, leaves []string) string {
	var text strings.Builder
	for _, leaf := range leaves {
		fmt.Fprintf(&text, "%q: {verdict: %q, evidence: %q}\n", leaf, found[leaf].Verdict, found[leaf].Evidence)
	}
	return text.String()
}
