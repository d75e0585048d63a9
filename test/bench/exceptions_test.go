package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/pkg/policy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// excepted is the number of GuestPolicyExceptions in the namespace of the input, and policiesOfEach the number of policies that each of them names.
const excepted, policiesOfEach = 1000, 16

// limiting returns policies that read the same ConfigMap as params. Each is violated by the input, and permits exceptions.
func limiting(b *testing.B) (all []*policy.Policy) {
	b.Helper()
	for i := range administered {
		of := &v1alpha1.GuestPolicy{}
		of.Name = fmt.Sprintf("policy-%d", i)
		of.Spec.ParamKind = &v1alpha1.GuestPolicyParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		of.Spec.ParamRef = &v1alpha1.GuestPolicyParamRef{Name: "limits", Namespace: "policies", ParameterNotFoundAction: v1alpha1.PolicyDenyNotFound}
		of.Spec.Validations = []v1alpha1.GuestPolicyValidation{{
			Name: "memory", Expression: "quantity(guest.spec.domain.memory.guest).compareTo(quantity(params.data.memory)) <= 0", Message: "too much memory"}}
		of.Spec.Exceptions = &v1alpha1.GuestPolicyExceptions{Allowed: true, MaxDuration: &metav1.Duration{Duration: time.Hour},
			Approvers: []v1alpha1.GuestPolicyApprover{{Kind: "User", Name: "bob"}}}
		compiled, errs := policy.Compile(of)
		if len(errs) > 0 {
			b.Fatal(errs)
		}
		all = append(all, compiled)
	}
	return all
}

// manyExceptions returns approved exceptions for each policy. Only the last ones are for VM 'name', and the others have ended or are for other VMs.
func manyExceptions(name string) policy.ExceptionSource {
	now := time.Now()
	var all []*policy.Exception
	for i := range excepted {
		of := &v1alpha1.GuestPolicyException{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("exception-%d", i), Generation: 1,
			CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))}}
		of.Spec = v1alpha1.GuestPolicyExceptionSpec{Reason: "a benchmark", RequestedBy: "ann", Expires: metav1.NewTime(now.Add(time.Minute * 50)),
			VirtualMachines: v1alpha1.GuestPolicyExceptionMatch{Names: []string{fmt.Sprintf("other-%d", i), name}}}
		switch {
		case i >= excepted-administered:
		case i%2 == 0:
			of.Spec.Expires = metav1.NewTime(now.Add(-time.Second))
		default:
			of.Spec.VirtualMachines.Names = of.Spec.VirtualMachines.Names[:1]
		}
		for j := range policiesOfEach {
			named := fmt.Sprintf("policy-%d", (i+j)%administered)
			of.Spec.Policies = append(of.Spec.Policies, v1alpha1.GuestPolicyExceptionPolicy{Name: named})
			of.Status.Approvals = append(of.Status.Approvals, v1alpha1.GuestPolicyExceptionApproval{
				Policy: named, By: "bob", As: v1alpha1.GuestPolicyApprover{Kind: "User", Name: "bob"}, Generation: 1})
		}
		all = append(all, policy.NewException(of))
	}
	slices.SortFunc(all, policy.CompareExceptions)
	return func(string) []*policy.Exception { return all }
}

// BenchmarkParamsAndExceptions measures a review of the mid VM with 50 policies with params, each of which it violates, and with 1,000 exceptions in its
// namespace, beside a review without policies. Metrics as of BenchmarkPoliciesAndProfiles.
func BenchmarkParamsAndExceptions(b *testing.B) {
	raw := input(b, "review-vm-it-mid.json")
	limits := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "limits", "namespace": "policies"}, "data": map[string]any{"memory": "1Mi"}}}
	loaded, all := server(b), limiting(b)
	loaded.Reviewer.Policies = func() ([]*policy.Policy, error) { return all, nil }
	loaded.Reviewer.Params = func(context.Context) policy.ParamSource {
		return func(v1alpha1.GuestPolicyParamKind, v1alpha1.GuestPolicyParamRef, string) ([]*unstructured.Unstructured, error) {
			return []*unstructured.Unstructured{limits}, nil
		}
	}
	loaded.Reviewer.Exceptions = manyExceptions(nameOf(b, raw))
	more(b, answering(b, loaded.Hooks()[admission.ValidateVM], raw), answering(b, server(b).Hooks()[admission.ValidateVM], raw))
}

// nameOf returns the name and checks the namespace of the object of a review.
func nameOf(b *testing.B, raw []byte) string {
	b.Helper()
	var review struct {
		Request struct {
			Object metav1.PartialObjectMetadata `json:"object"`
		} `json:"request"`
	}
	if err := json.Unmarshal(raw, &review); err != nil || review.Request.Object.Namespace != "default" {
		b.Fatalf("%v, namespace '%s'", err, review.Request.Object.Namespace)
	}
	return review.Request.Object.Name
}
