package policy

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
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
	e.runValidations()
	const want = "GuestPolicy 'costly' failed: spec.validations[10].expression: the policy exceeds its cost budget"
	if len(j.Errors) != 1 || !strings.Contains(j.Errors[0].Detail, want) {
		t.Errorf("%v", j.Errors)
	}
	if j.Cost != 11*one {
		t.Errorf("cost %d, want the cost of 11 validations of %d each", j.Cost, one)
	}
}
