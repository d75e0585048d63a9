package policy

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Selection is which VMs the matchConstraints of a policy select. Its expressions are not compiled, which takes long.
type Selection struct{ policy *Policy }

// ReadSelection returns the selection of a policy. The errors name the selectors that cannot be read; they select all.
func ReadSelection(policy *v1alpha1.GuestPolicy) (Selection, field.ErrorList) {
	p := newPolicy(policy)
	p.parseSelectors(field.NewPath("spec"))
	return Selection{p}, p.Errors
}

// SelectsVM reports whether the policy judges writes of a VM, unless its matchConditions say otherwise.
func (s Selection) SelectsVM(vm metav1.Object, namespace *corev1.Namespace) bool {
	return s.policy.Matches(&Request{
		Operation: s.policy.operations[0], Resource: v1alpha1.PolicyVirtualMachines, Object: vm, Namespace: namespace,
	})
}
