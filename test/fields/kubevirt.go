package fields

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// NotSeen is KubeVirt's alone: it accepts the leaf, and neither domain, pod nor data of the guest change.
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

// complaint is why a VMI does not start, empty if it does.
func (r *reply) complaint() string {
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

// of asks for what becomes of a VMI as a user writes it. Of two VMIs that are equal one is asked for.
func (k *kubeVirt) of(vmi *v1.VirtualMachineInstance) *reply {
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

func (k *kubeVirt) take(leaf, verdict, evidence string) {
	order := []string{Served, ByPod, NotSeen, Refused}
	if rank := slices.Index(order, k.found[leaf].Verdict); rank < 0 || slices.Index(order, verdict) < rank {
		k.found[leaf] = finding{verdict, evidence}
	}
}

// guest tries each leaf of a sample, and of what the mutating webhook makes of it.
func (k *kubeVirt) guest(sample *v1.VirtualMachineInstance) error {
	sparse, whole, err := k.legal(sample)
	if err != nil {
		return err
	}
	mutated := sparse.DeepCopy()
	mutated.Spec = *whole.Spec
	for _, leaf := range k.leaves {
		written := k.leaf(leaf, sparse, whole)
		if !written || k.found[leaf].Verdict == "" {
			k.leaf(leaf, mutated, whole)
		}
	}
	return nil
}

// leaf tries a leaf at all its places in a VMI, until one is served, and reports whether it has any.
func (k *kubeVirt) leaf(leaf string, vmi *v1.VirtualMachineInstance, whole *reply) bool {
	spec, err := general(vmi.Spec)
	must(err)
	less, err := without(vmi, leaf)
	must(err)
	others := append(replaced(vmi, leaf), relisted(vmi, leaf)...)
	for i := range places(spec, leaf) {
		if k.found[leaf].Verdict == Served {
			break
		}
		tried := []*v1.VirtualMachineInstance{less[i]}
		if i < len(others) {
			tried = append(tried, others[i])
		}
		k.place(leaf, tried, whole)
	}
	return len(less) > 0
}

// relisted is variants with another first word of a list. Other leaves have none.
func relisted(vmi *v1.VirtualMachineInstance, leaf string) []*v1.VirtualMachineInstance {
	found, err := variants(vmi, leaf, func(holder map[string]any, name string) bool {
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

// place compares VMIs that differ in a leaf alone with the whole one. A leaf that no VMI can be without, and that can have no other value, is served.
func (k *kubeVirt) place(leaf string, tried []*v1.VirtualMachineInstance, whole *reply) {
	reasons := []string{}
	for _, variant := range tried {
		r := k.of(variant)
		if r.complaint() != "" {
			reasons = append(reasons, r.complaint())
			continue
		}
		was, is := outcome{elements: map[string][]string{}}, outcome{elements: map[string][]string{}}
		was.read(whole.Domain)
		is.read(r.Domain)
		if elements := changed(was, is); len(elements) > 0 {
			k.take(leaf, Served, "domain: "+strings.Trim(shortened(elements)[0], "`"))
		} else if string(r.Data) != string(whole.Data) {
			k.take(leaf, Served, "data of the guest")
		} else if string(r.Pod) != string(whole.Pod) {
			k.take(leaf, ByPod, "pod")
		} else {
			k.take(leaf, NotSeen, "nothing changes")
		}
	}
	if len(reasons) == len(tried) {
		k.take(leaf, Served, "otherwise refused: "+brief(reasons[0]))
	}
}

// brief is the beginning of a reason: some repeat the whole object.
func brief(reason string) string {
	line, _, _ := strings.Cut(reason, "\n")
	return line[:min(len(line), 100)]
}

// legal takes from a sample what KubeVirt refuses, until it starts. What is taken away is refused.
func (k *kubeVirt) legal(vmi *v1.VirtualMachineInstance) (*v1.VirtualMachineInstance, *reply, error) {
	for range 16 {
		r := k.of(vmi)
		reason := r.complaint()
		if reason == "" {
			return vmi, r, nil
		}
		less := k.shorter(vmi, r)
		if less == nil {
			return nil, nil, fmt.Errorf("%s does not start: %s", vmi.Name, reason)
		}
		spec, err := general(vmi.Spec)
		must(err)
		left, err := general(less.Spec)
		must(err)
		for _, leaf := range k.leaves {
			if len(places(left, leaf)) < len(places(spec, leaf)) {
				k.take(leaf, Refused, brief(reason))
			}
		}
		vmi = less
	}
	return nil, nil, fmt.Errorf("%s does not start: %s", vmi.Name, k.of(vmi).complaint())
}

// shorter is a VMI without what it is refused for: the smallest part without which it starts, or else without which that reason is gone. Paths of reasons do
// not help: not every reason has one, and not every one is a path of the VMI.
func (k *kubeVirt) shorter(vmi *v1.VirtualMachineInstance, refused *reply) (best *v1.VirtualMachineInstance) {
	for _, at := range k.parts(vmi) {
		less, err := cut(vmi, at)
		must(err)
		if strings.HasSuffix(at, "]") {
			less = unnamed(vmi, less)
		}
		r := k.of(less)
		if r.complaint() == "" {
			return less
		}
		if best == nil && len(r.Refused) <= max(len(refused.Refused)-1, 0) && r.complaint() != refused.complaint() {
			best = less
		}
	}
	return best
}

// parts are the paths of a VMI's leaves and of what holds them, the innermost ones first.
func (k *kubeVirt) parts(vmi *v1.VirtualMachineInstance) (found []string) {
	spec, err := general(vmi.Spec)
	must(err)
	for _, leaf := range k.leaves {
		for _, at := range places(spec, leaf) {
			for ; at != "" && at != "domain" && at != "domain.devices"; at = parent(at) {
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

// recorded writes findings a line a leaf, as YAML.
func recorded(found map[string]finding, leaves []string) string {
	var text strings.Builder
	for _, leaf := range leaves {
		fmt.Fprintf(&text, "%q: {verdict: %q, evidence: %q}\n", leaf, found[leaf].Verdict, found[leaf].Evidence)
	}
	return text.String()
}
