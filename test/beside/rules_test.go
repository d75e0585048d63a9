package beside

import (
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/pkg/validate"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/corpus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// ruleAnswer is what KubeVirt without Kiln said about an object of the corpus that Kiln refuses.
type ruleAnswer struct {
	of string
	// rules are the rules by which Kiln refuses the object.
	rules []string
	// vmi means that the object is a VMI, which KubeVirt judges by more rules than a VM.
	vmi     bool
	allowed bool
	message string
}

// refusedCases asks KubeVirt about the objects of the corpus that Kiln refuses by the configuration of this cluster. A VMI is asked about twice: also as the
// template of a VM.
func refusedCases(s space) (answers []ruleAnswer) {
	s.Helper()
	installed, err := s.on.List(s.Context(), cluster.In{Namespace: s.on.KubeVirt, Kind: "kubevirt"}, "")
	s.ok(err)
	text, err := installed.Items[0].MarshalJSON()
	s.ok(err)
	settings, _, err := clusterconfig.Parse(text)
	s.ok(err)
	settings.Limits.KubeVirtGuests = true
	cases, err := corpus.Load("../corpus")
	s.ok(err)
	for _, c := range cases {
		if slices.ContainsFunc(c.Objects, func(o *unstructured.Unstructured) bool {
			return o.GetAPIVersion() == v1alpha1.GroupVersion.String() || o.GetKind() == v1.VirtualMachineInstancePresetGroupVersionKind.Kind
		}) {
			continue // KubeVirt alone has no profiles, and applies presets to VMIs only
		}
		c.Cluster = settings
		admitted, err := c.Admit(s.Context())
		s.ok(err)
		var rules []string
		for _, mistake := range admitted.Verdict.Errors {
			rules = append(rules, mistake.Origin)
		}
		slices.Sort(rules)
		if rules = slices.Compact(rules); len(rules) == 0 {
			continue
		}
		in, remove, err := s.withObjects(c.Objects)
		if err != nil {
			s.Logf("%s: left out, since KubeVirt has no such object: %v", c.Name, err)
			remove()
			continue
		}
		object := c.Applied()
		object.SetNamespace(in.name)
		of := ruleAnswer{of: c.Name, rules: rules}
		if c.VMI != nil {
			answers = append(answers, in.judged(of, object), in.judged(of, asTemplate(object)))
		} else {
			answers = append(answers, in.judged(of, object))
		}
		remove()
	}
	return append(answers, refusedRequests(s)...)
}

// refusedRequests asks KubeVirt about the instancetypes, preferences and presets of the corpus that Kiln refuses.
func refusedRequests(s space) (answers []ruleAnswer) {
	s.Helper()
	requests, err := corpus.LoadRequests("../corpus")
	s.ok(err)
	for _, r := range requests {
		verdict, err := r.Judge(s.Context())
		s.ok(err)
		if verdict.Allowed() || r.Stored != nil || r.By.User != "" || strings.HasPrefix(r.Kind, "Guest") || strings.HasPrefix(r.Kind, "ClusterGuest") ||
			r.Kind == "VirtualMachineInstance" { // which the corpus has without defaults
			continue
		}
		of := ruleAnswer{of: "requests/" + r.Name}
		for _, mistake := range verdict.Errors {
			of.rules = append(of.rules, mistake.Origin)
		}
		slices.Sort(of.rules)
		of.rules = slices.Compact(of.rules)
		object := &unstructured.Unstructured{}
		s.ok(object.UnmarshalJSON(r.Object))
		object.SetNamespace(s.name)
		answers = append(answers, s.judged(of, object))
	}
	return answers
}

// judged asks KubeVirt about one object.
func (s space) judged(of ruleAnswer, object *unstructured.Unstructured) ruleAnswer {
	s.Helper()
	of.vmi = object.GetKind() == v1.VirtualMachineInstanceGroupVersionKind.Kind
	_, err := s.on.WouldCreate(s.Context(), s.in(strings.ToLower(object.GetKind())), object)
	if of.allowed = err == nil; err != nil {
		of.message = err.Error()
	}
	return of
}

// withObjects returns a namespace with the objects of a case, and what removes cluster-wide ones again. KubeVirt's own objects are there already, and there is
// no CDI. An error means that KubeVirt refuses one of the objects.
func (s space) withObjects(objects []*unstructured.Unstructured) (in space, remove func(), err error) {
	s.Helper()
	if len(objects) == 0 {
		return s, func() {}, nil
	}
	in = newSpaceOn(s.T, s.on)
	var wide []*unstructured.Unstructured
	remove = func() {
		for _, object := range wide {
			s.ok(s.on.Delete(s.Context(), in.in(object.GetKind()), object.GetName()))
		}
	}
	for _, object := range objects {
		if object.GetKind() == "Deployment" || object.GetKind() == "DataSource" {
			continue
		}
		object = object.DeepCopy()
		if object.SetNamespace(in.name); strings.HasPrefix(object.GetKind(), "VirtualMachineCluster") {
			object.SetNamespace("")
		}
		if _, err := s.on.Create(s.Context(), object); err != nil {
			return in, remove, err
		}
		if object.GetNamespace() == "" {
			wide = append(wide, object)
		}
	}
	return in, remove, nil
}

// asTemplate returns a VM whose template is a VMI.
func asTemplate(vmi *unstructured.Unstructured) *unstructured.Unstructured {
	metadata, _, _ := unstructured.NestedMap(vmi.Object, "metadata")
	delete(metadata, "name")
	delete(metadata, "namespace")
	vm := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"runStrategy": string(v1.RunStrategyHalted), "template": map[string]any{"metadata": metadata, "spec": vmi.Object["spec"]},
	}}}
	vm.SetGroupVersionKind(v1.VirtualMachineGroupVersionKind)
	vm.SetName(vmi.GetName())
	vm.SetNamespace(vmi.GetNamespace())
	return vm
}

// TestRules: what a rule says about KubeVirt is what virt-api answered while it ran without Kiln. An object that breaks several rules shows about each of them
// only that KubeVirt admits it.
func TestRules(t *testing.T) {
	alone(t)
	compared, met := map[string]bool{}, map[validate.KubeVirtVerdict]int{}
	for _, a := range before.rules {
		for _, rule := range a.rules {
			says := validate.KubeVirtOn(rule)
			if a.allowed {
				compared[rule] = true
			}
			if a.allowed && (says == validate.KubeVirtRefuses || says == validate.KubeVirtRefusesVMI && a.vmi) {
				t.Errorf("%s: KubeVirt admits it, and rule '%s' says that KubeVirt %s", a.of, rule, says)
			}
		}
		if len(a.rules) > 1 {
			continue
		}
		says := validate.KubeVirtOn(a.rules[0])
		met[says]++
		compared[a.rules[0]] = true
		if !a.allowed && says == validate.KubeVirtAdmits {
			t.Errorf("%s: KubeVirt refuses it, and rule '%s' says that KubeVirt admits it: %s", a.of, a.rules[0], a.message)
		}
	}
	t.Logf("%d answers about %d rules: %v", len(before.rules), len(compared), met)
	for _, says := range []validate.KubeVirtVerdict{validate.KubeVirtRefuses, validate.KubeVirtRefusesVMI, validate.KubeVirtRefusesSome, validate.KubeVirtAdmits} {
		if met[says] == 0 {
			t.Errorf("no object of the corpus breaks only a rule of which KubeVirt %s", says)
		}
	}
}
