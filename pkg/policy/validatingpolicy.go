package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/kilnvm/kiln/api/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// ValidatingPolicy is a GuestPolicy as a ValidatingAdmissionPolicy with its binding, which the API server evaluates itself.
type ValidatingPolicy struct {
	Policy  *admissionv1.ValidatingAdmissionPolicy
	Binding *admissionv1.ValidatingAdmissionPolicyBinding
	// Notes say what the ValidatingAdmissionPolicy does otherwise.
	Notes []string
}

// Names and expressions of the matchConditions that make a ValidatingAdmissionPolicy judge the requests that Kiln's webhooks get. A test compares the
// expressions with the webhook configurations.
const (
	conditionJudged = "kiln-something-to-judge"
	conditionStop   = "kiln-more-than-a-stop"
	conditionMade   = "kiln-not-made-for-a-vm"

	// SomethingToJudge is true for a request that changes what policies read.
	SomethingToJudge = "oldObject == null || object.spec != oldObject.spec " +
		"|| object.metadata.?labels != oldObject.metadata.?labels " +
		"|| object.metadata.?ownerReferences != oldObject.metadata.?ownerReferences " +
		"|| object.metadata.?annotations != oldObject.metadata.?annotations"
	// SpecChangesIfBeingDeleted is true for objects that exist, and for changes of the spec.
	SpecChangesIfBeingDeleted = "!has(object.metadata.deletionTimestamp) || oldObject == null || object.spec != oldObject.spec"
	// MoreThanAStop is false for an update that only stops a VM.
	MoreThanAStop = "oldObject == null || has(object.spec.runStrategy) == has(object.spec.running) " +
		"|| object.spec.?runStrategy.orValue('Halted') != 'Halted' || object.spec.?running.orValue(false) " +
		"|| object.spec.transformMap(k, v, !(k in ['running', 'runStrategy']), v) != oldObject.spec.transformMap(k, v, !(k in ['running', 'runStrategy']), v) " +
		"|| object.metadata.?labels != oldObject.metadata.?labels " +
		"|| object.metadata.?ownerReferences != oldObject.metadata.?ownerReferences " +
		"|| object.metadata.?annotations != oldObject.metadata.?annotations"
)

// ofKiln are the variables that only a GuestPolicy has, with the reason why a ValidatingAdmissionPolicy cannot read them.
var ofKiln = map[string]string{
	varGuest:        "a ValidatingAdmissionPolicy sees the VM as it is written, and not the VMI that boots",
	varInstancetype: "a ValidatingAdmissionPolicy does not read the instancetype of a VM",
	varPreference:   "a ValidatingAdmissionPolicy does not read the preference of a VM",
	varHardware:     "a ValidatingAdmissionPolicy does not read the GuestHardware of a VM",
}

// AsValidatingPolicy writes a policy that compiles as a ValidatingAdmissionPolicy and its binding. The errors say why a policy cannot be written so.
// controllers are the accounts that make VMIs for VMs: a GuestPolicy does not judge these VMIs, because it has judged their VMs.
func AsValidatingPolicy(of *v1alpha1.GuestPolicy, controllers []string) (*ValidatingPolicy, field.ErrorList) {
	p, errs := Compile(of)
	if len(errs) > 0 {
		return nil, errs
	}
	at := field.NewPath("spec")
	errs = p.findVariablesOfKiln(at)
	own := p.matchConditions(controllers)
	if total := len(own) + len(of.Spec.MatchConditions); total > mostExpressions {
		errs = append(errs, field.TooMany(at.Child("matchConditions"), total, mostExpressions))
	}
	if len(errs) > 0 {
		return nil, errs
	}
	written := &ValidatingPolicy{Policy: p.asValidatingPolicy(own), Binding: p.asBinding()}
	if slices.Contains(p.operations, v1alpha1.PolicyUpdate) {
		written.Notes = append(written.Notes,
			"it refuses each update of an object that violates it, also one that Kiln forgives because the object violated the policy before")
	}
	for i, v := range of.Spec.Validations {
		if v.Field != "" {
			written.Notes = append(written.Notes, fmt.Sprintf("its refusals do not name the field of spec.validations[%d], '%s'", i, printableLine(v.Field, mostName)))
		}
	}
	return written, nil
}

// findVariablesOfKiln returns an error for each expression that reads what only a GuestPolicy has.
func (p *Policy) findVariablesOfKiln(at *field.Path) (errs field.ErrorList) {
	check := func(at *field.Path, source string) {
		if source == "" {
			return
		}
		world, err := worlds[p.resources[0]]()
		if err != nil {
			errs = append(errs, field.InternalError(at, err))
			return
		}
		parsed, issues := world.env.Parse(source)
		if issues.Err() != nil {
			errs = append(errs, field.Invalid(at, printableLine(source, mostValue), printableLine(issues.Err().Error(), mostIssue)))
			return
		}
		for _, name := range []string{varGuest, varInstancetype, varPreference, varHardware} {
			if names(parsed.NativeRep().Expr(), name) {
				errs = append(errs, field.Forbidden(at, fmt.Sprintf("it reads '%s': %s", name, ofKiln[name])))
			}
		}
	}
	for i, c := range p.spec.MatchConditions {
		check(at.Child("matchConditions").Index(i).Child("expression"), c.Expression)
	}
	for i, v := range p.spec.Variables {
		check(at.Child("variables").Index(i).Child("expression"), v.Expression)
	}
	for i, v := range p.spec.Validations {
		check(at.Child("validations").Index(i).Child("expression"), v.Expression)
		check(at.Child("validations").Index(i).Child("messageExpression"), v.MessageExpression)
	}
	for i, a := range p.spec.AuditAnnotations {
		check(at.Child("auditAnnotations").Index(i).Child("valueExpression"), a.ValueExpression)
	}
	return errs
}

// names reports whether an expression reads a variable. A variable of a loop of the same name counts, too.
func names(of ast.Expr, variable string) bool {
	if of.Kind() == ast.IdentKind {
		return of.AsIdent() == variable
	}
	return slices.ContainsFunc(subexpressions(of), func(part ast.Expr) bool { return names(part, variable) })
}

// matchConditions returns the conditions by which a ValidatingAdmissionPolicy judges the requests that Kiln judges.
func (p *Policy) matchConditions(controllers []string) (all []admissionv1.MatchCondition) {
	if slices.Contains(p.operations, v1alpha1.PolicyUpdate) {
		all = append(all, admissionv1.MatchCondition{Name: conditionJudged, Expression: "(" + SomethingToJudge + ") && (" + SpecChangesIfBeingDeleted + ")"})
		if slices.Contains(p.resources, v1alpha1.PolicyVirtualMachines) {
			all = append(all, admissionv1.MatchCondition{Name: conditionStop,
				Expression: "request.resource.resource != 'virtualmachines' || " + MoreThanAStop})
		}
	}
	if slices.Contains(p.resources, v1alpha1.PolicyVirtualMachineInstances) {
		var quoted []string
		for _, account := range controllers {
			quoted = append(quoted, "'"+account+"'")
		}
		all = append(all, admissionv1.MatchCondition{Name: conditionMade, Expression: "request.resource.resource != 'virtualmachineinstances' " +
			"|| !object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'VirtualMachine' && o.?controller.orValue(false)) " +
			"|| !(request.userInfo.username in [" + strings.Join(quoted, ", ") + "])"})
	}
	return all
}

// asValidatingPolicy returns the policy with further matchConditions, which come first.
func (p *Policy) asValidatingPolicy(own []admissionv1.MatchCondition) *admissionv1.ValidatingAdmissionPolicy {
	written := &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
	}
	s := &written.Spec
	if kind := p.spec.ParamKind; kind != nil {
		s.ParamKind = &admissionv1.ParamKind{APIVersion: kind.APIVersion, Kind: kind.Kind}
	}
	rule := admissionv1.NamedRuleWithOperations{}
	rule.APIGroups, rule.APIVersions = []string{v1.GroupVersion.Group}, []string{v1.GroupVersion.Version}
	for _, resource := range p.resources {
		rule.Resources = append(rule.Resources, string(resource))
	}
	for _, operation := range p.operations {
		rule.Operations = append(rule.Operations, admissionv1.OperationType(operation))
	}
	s.MatchConstraints = &admissionv1.MatchResources{
		NamespaceSelector: p.spec.MatchConstraints.NamespaceSelector, ObjectSelector: p.spec.MatchConstraints.ObjectSelector,
		ResourceRules: []admissionv1.NamedRuleWithOperations{rule},
	}
	failure := admissionv1.FailurePolicyType(v1alpha1.PolicyFail)
	if p.spec.FailurePolicy == v1alpha1.PolicyIgnore {
		failure = admissionv1.Ignore
	}
	s.FailurePolicy, s.MatchConditions = &failure, own
	for _, c := range p.spec.MatchConditions {
		s.MatchConditions = append(s.MatchConditions, admissionv1.MatchCondition{Name: c.Name, Expression: c.Expression})
	}
	for _, v := range p.spec.Variables {
		s.Variables = append(s.Variables, admissionv1.Variable{Name: v.Name, Expression: v.Expression})
	}
	for _, v := range p.spec.Validations {
		made := admissionv1.Validation{Expression: v.Expression, Message: v.Message, MessageExpression: v.MessageExpression}
		if v.Reason != "" {
			made.Reason = &v.Reason
		}
		s.Validations = append(s.Validations, made)
	}
	for _, a := range p.spec.AuditAnnotations {
		s.AuditAnnotations = append(s.AuditAnnotations, admissionv1.AuditAnnotation{Key: a.Key, ValueExpression: a.ValueExpression})
	}
	return written
}

// asBinding returns the binding of the policy, which has its actions and its params.
func (p *Policy) asBinding() *admissionv1.ValidatingAdmissionPolicyBinding {
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: p.Name},
	}
	for _, action := range p.validationActions() {
		binding.Spec.ValidationActions = append(binding.Spec.ValidationActions, admissionv1.ValidationAction(action))
	}
	if ref := p.spec.ParamRef; ref != nil {
		notFound := admissionv1.ParameterNotFoundActionType(ref.ParameterNotFoundAction)
		binding.Spec.ParamRef = &admissionv1.ParamRef{Name: ref.Name, Namespace: ref.Namespace, Selector: ref.Selector, ParameterNotFoundAction: &notFound}
	}
	return binding
}
