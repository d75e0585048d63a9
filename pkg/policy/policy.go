// Package policy is the engine of GuestPolicy: it compiles the CEL of a policy and judges VMs and VMIs by it. Policies have the fields of a
// ValidatingAdmissionPolicy, with Kubernetes' own environment, libraries and limits. Unlike a ValidatingAdmissionPolicy, a GuestPolicy sees the VMI that will
// boot.
package policy

import (
	"regexp"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Policy is a compiled GuestPolicy. It is immutable, and may be used by several goroutines at once.
type Policy struct {
	// Name is the name of the GuestPolicy.
	Name string
	// Errors are the errors that Compile returned. A policy with errors is not evaluated: its failurePolicy decides.
	Errors field.ErrorList

	spec       v1alpha1.GuestPolicySpec
	resources  []v1alpha1.GuestPolicyResource
	operations []v1alpha1.GuestPolicyOperation
	// namespaces and objects are nil if the policy selects all.
	namespaces, objects labels.Selector
	programs            map[v1alpha1.GuestPolicyResource]*programs
	// schema is the schema of the paramKind; nil if it is not known.
	schema *spec.Schema
}

// Matches reports whether the matchConstraints of the policy select the object of a request. It allocates nothing.
func (p *Policy) Matches(r *Request) bool {
	if !slices.Contains(p.resources, r.Resource) || !slices.Contains(p.operations, r.Operation) {
		return false
	}
	if p.objects != nil && !p.objects.Matches(labels.Set(r.Object.GetLabels())) {
		if r.OldObject == nil || !p.objects.Matches(labels.Set(r.OldObject.GetLabels())) {
			return false
		}
	}
	return p.namespaces == nil || r.Namespace != nil && p.namespaces.Matches(labels.Set(r.Namespace.Labels))
}

// Compile compiles a policy. The errors name the field of the policy, and line and column of an expression. A policy with errors can be passed to Judge: its
// failurePolicy decides.
func Compile(policy *v1alpha1.GuestPolicy) (*Policy, field.ErrorList) {
	return CompileTyped(policy, nil)
}

// CompileTyped is Compile with the schema of the paramKind: an expression that reads a field of params that the schema does not have is an error. Without a
// schema, the fields of params have no types, unless they are ConfigMaps.
func CompileTyped(policy *v1alpha1.GuestPolicy, params *spec.Schema) (*Policy, field.ErrorList) {
	p := newPolicy(policy)
	p.schema = params
	at := field.NewPath("spec")
	p.Errors = p.checkForm(at)
	p.parseSelectors(at)
	if len(p.Errors) == 0 {
		p.compileExpressions(at)
	}
	return p, p.Errors
}

// newPolicy returns a policy whose selectors and expressions are not read yet.
func newPolicy(policy *v1alpha1.GuestPolicy) *Policy {
	spec := policy.Spec.DeepCopy()
	p := &Policy{
		Name:       policy.Name,
		spec:       *spec,
		resources:  spec.MatchConstraints.Resources,
		operations: spec.MatchConstraints.Operations,
		programs:   map[v1alpha1.GuestPolicyResource]*programs{},
	}
	if len(p.resources) == 0 {
		p.resources = resources
	}
	if len(p.operations) == 0 {
		p.operations = operations
	}
	return p
}

// parseSelectors reads the selectors of the policy, and adds an error for each that cannot be read.
func (p *Policy) parseSelectors(at *field.Path) {
	of := p.spec.MatchConstraints
	p.namespaces = p.parseSelector(of.NamespaceSelector, at.Child("matchConstraints", "namespaceSelector"))
	p.objects = p.parseSelector(of.ObjectSelector, at.Child("matchConstraints", "objectSelector"))
}

// ofCaller matches an expression that reads who makes a request.
var ofCaller = regexp.MustCompile(`\buserInfo\b`)

// Warnings tell the author of a policy what its expressions cannot see, in sentences of at most validate.MaxWarning characters.
func (p *Policy) Warnings() []string {
	var expressions []string
	for _, condition := range p.spec.MatchConditions {
		expressions = append(expressions, condition.Expression)
	}
	for _, variable := range p.spec.Variables {
		expressions = append(expressions, variable.Expression)
	}
	for _, validation := range p.spec.Validations {
		expressions = append(expressions, validation.Expression)
	}
	if !slices.ContainsFunc(expressions, ofCaller.MatchString) {
		return nil
	}
	return []string{"request.userInfo names Kiln's or KubeVirt's API server if a user starts, stops or changes a VM by virtctl"}
}

// parseSelector returns a selector, or nil for one that selects all.
func (p *Policy) parseSelector(selector *metav1.LabelSelector, at *field.Path) labels.Selector {
	if selector == nil {
		return nil
	}
	read, err := metav1.LabelSelectorAsSelector(selector)
	switch {
	case err != nil:
		p.Errors = append(p.Errors, field.Forbidden(at, err.Error()))
		return nil // its failurePolicy judges every object then
	case read.Empty():
		return nil
	}
	return read
}
