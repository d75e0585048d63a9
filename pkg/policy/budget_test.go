package policy

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	v1 "kubevirt.io/api/core/v1"
)

// TestBudget: a policy that has spent its budget fails once, and nothing more of it is evaluated.
func TestBudget(t *testing.T) {
	t.Parallel()
	p := &v1alpha1.GuestPolicy{}
	p.Name = "costly"
	for range 40 {
		p.Spec.Validations = append(p.Spec.Validations, v1alpha1.GuestPolicyValidation{Expression: "lists.range(100).all(i, i >= 0)"})
	}
	compiled, errs := Compile(p)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	request := &Request{Operation: v1alpha1.PolicyCreate, Resource: v1alpha1.PolicyVirtualMachines, Object: &v1.VirtualMachine{}}
	one := Judge(nil, []*Policy{compiled}, request).Cost / 40
	j := newJudge(stopping{}, request)
	defer j.cancel()
	e := &evaluation{judge: j, policy: compiled, programs: compiled.programs[request.Resource], budget: int64(10*one + one/2)}
	e.validationsWithin()
	const want = "GuestPolicy 'costly' failed: spec.validations[10].expression: the policy exceeds its cost budget"
	if len(j.Errors) != 1 || !strings.Contains(j.Errors[0].Detail, want) {
		t.Errorf("%v", j.Errors)
	}
	if j.Cost != 11*one {
		t.Errorf("cost %d, want that of 11 validations of %d", j.Cost, one)
	}
}

// TestReadInAll: a call costs little by Kubernetes' measure and reads or makes a text of a quarter of a megabyte. A loop of such calls stops to read.
func TestReadInAll(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	vm.Annotations = map[string]string{"long": strings.Repeat("a", 256<<10)}
	request := &Request{Operation: v1alpha1.PolicyCreate, Resource: v1alpha1.PolicyVirtualMachines, Object: vm}
	for _, inner := range []string{
		"size(object.metadata.annotations['long']) > 5",
		"'x'.replace('x', object.metadata.annotations['long']) != ''",
		"variables.square == variables.square",
	} {
		p := &v1alpha1.GuestPolicy{}
		p.Spec.Variables = []v1alpha1.GuestPolicyVariable{{Name: "square", Expression: "lists.range(60).map(x, lists.range(60))"}}
		p.Spec.Validations = []v1alpha1.GuestPolicyValidation{{Expression: "lists.range(100).all(a, lists.range(100).all(b, " + inner + "))"}}
		compiled, errs := Compile(p)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		j := newJudge(stopping{}, request)
		e := &evaluation{judge: j, policy: compiled, programs: compiled.programs[request.Resource], budget: celconfig.RuntimeCELCostBudget}
		e.validationsWithin()
		j.cancel()
		if len(j.Errors) != 1 || j.Errors[0].Origin != RuleFailed || e.reads > mostReadInAll+mostRead {
			t.Errorf("%s: %v, read %d", inner, j.Errors, e.reads)
		}
	}
}

// TestChecksAreOfTheLanguage: a check of a function that the language does not have, or by another name, checks nothing.
func TestChecksAreOfTheLanguage(t *testing.T) {
	t.Parallel()
	vm, err := worlds[v1alpha1.PolicyVirtualMachines]()
	if err != nil {
		t.Fatal(err)
	}
	declared := vm.env.Functions()
	for name := range checks {
		if declared[name] == nil {
			t.Errorf("no function is called %s", name)
		}
	}
}
