package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	celcommon "k8s.io/apiserver/pkg/cel/common"
)

// Rules that errors of policies carry as their origin.
const (
	// RuleDenied is the Origin of an error that says that a validation of a policy is false.
	RuleDenied = "policy/denied"
	// RuleFailed is the Origin of an error that says that an expression of a policy failed or does not compile.
	RuleFailed = "policy/failed"
)

// Result is the result of evaluating policies on an object.
type Result struct {
	// Errors refuse the object. Their fields are fields of the object; their origin is one of the rules above.
	Errors   field.ErrorList
	Warnings []string
	// Selected are the names of the policies that select the object, also by their matchConditions.
	Selected []string
	// Audit are annotations for the audit event of the request. Keys are NAME/KEY for auditAnnotations of a policy, ViolationsKey and ExceptionsKey.
	Audit map[string]string
	// Violations are the validations that are not true, whatever the actions of their policies, in the order of the policies.
	Violations []Violation
	// Cost is the cost of all evaluations, in Kubernetes' units: a million is about a tenth of a second.
	Cost uint64
	// Failures are the policies that could not be evaluated, whatever their failurePolicy.
	Failures []Failure
	// Interrupted reports that the evaluation was interrupted. Then the other fields are incomplete, and must not be used for an answer.
	Interrupted bool
	// Last is the name of the policy that was evaluated last; after an interruption, of the policy that was interrupted.
	Last string
}

// ViolationsKey is the key in Result.Audit of the violated validations of policies with action Audit: a JSON list in the form of annotation
// validation.policy.admission.k8s.io/validation_failure.
const ViolationsKey = "validation_failure"

// ExceptionsKey is the key in Result.Audit of the violations that a GuestPolicyException permits, whatever the actions of their policies: a list in the form
// of the list of ViolationsKey.
const ExceptionsKey = "exceptions"

// Bounds of these lists, so that it is never cut within its JSON: at most so many violations, as in a ValidatingAdmissionPolicy, with messages of at
// most so many bytes.
const (
	MostAudited        = 50
	mostAuditedMessage = 512
)

// Violation is a validation that is not true.
type Violation struct {
	// Policy is the name of the GuestPolicy, and Validation the index of the validation in it.
	Policy string `json:"policy"`
	// Param names the object with which the policy was evaluated, such as 'ConfigMap team/limits'; empty if the policy has no params.
	Param      string `json:"param,omitempty"`
	Validation int    `json:"expressionIndex"`
	// Name is the name of the validation; empty if it has none.
	Name    string                       `json:"-"`
	Message string                       `json:"message"`
	Actions []v1alpha1.GuestPolicyAction `json:"validationActions"`
	// Exception is the GuestPolicyException by which the object may violate the validation, as NAMESPACE/NAME, and Until its end; empty without an exception.
	Exception string       `json:"exception,omitempty"`
	Until     *metav1.Time `json:"until,omitempty"`
	// Err refuses the object if the policy denies.
	Err *field.Error `json:"-"`
}

// Rule returns the name of the validation, or its path in the policy.
func (v Violation) Rule() string {
	if v.Name != "" {
		return v.Name
	}
	return fmt.Sprintf("spec.validations[%d]", v.Validation)
}

// Failure is a policy that could not be evaluated.
type Failure struct {
	Policy string
	// Param names the object with which the policy was evaluated; empty if the policy has no params.
	Param string
	// Expression is the path of the expression that failed, such as spec.validations[0].expression. It is empty if the policy does not compile.
	Expression string
	Cause      error
	// Message names the expression and says why it failed.
	Message string
	// Err refuses the object. It is nil if the failurePolicy is Ignore.
	Err *field.Error
}

// SameAs reports whether the same expression failed for the same cause. Causes of cel-go say themselves whether they are the same (errors.Is).
func (f Failure) SameAs(other Failure) bool {
	return f.Policy == other.Policy && f.Param == other.Param && f.Expression == other.Expression && errors.Is(f.Cause, other.Cause)
}

// judge is one judgement. It evaluates one policy after the other, in one goroutine: values of CEL keep what they have read.
type judge struct {
	*Result
	context context.Context
	cancel  context.CancelFunc
	stop    stopping
	input   *input
	audited []Violation
	// excepted are violations that an exception permits.
	excepted []Violation
	// exceptions are the exceptions of the object, if exceptionsKnown is true: see exceptionsOfObject.
	exceptions      []*Exception
	exceptionsKnown bool
}

// newJudge returns a judgement that has not begun. Its caller must call cancel.
func newJudge(stop stopping, r *Request) *judge {
	j := &judge{Result: &Result{}, stop: stop, input: newInput(r)}
	j.context, j.cancel = context.WithCancel(stop)
	return j
}

// Judge evaluates all policies that match an object, in the order given. A policy that fails does not stop the others. Closing interrupt ends the evaluation;
// with nil, nothing does.
func Judge(interrupt <-chan struct{}, policies []*Policy, r *Request) Result {
	var j *judge
	for _, p := range policies {
		if !p.Matches(r) {
			continue
		}
		if j == nil {
			j = newJudge(stopping{interrupt}, r)
			defer j.cancel()
		}
		j.Last = p.Name
		if j.judgePolicy(p, r); j.Interrupted {
			break
		}
	}
	if j == nil {
		return Result{}
	}
	j.addAuditedViolations(ViolationsKey, j.audited)
	j.addAuditedViolations(ExceptionsKey, j.excepted)
	return *j.Result
}

// addAuditedViolations adds violations to the audit event.
func (j *judge) addAuditedViolations(key string, violations []Violation) {
	if len(violations) == 0 {
		return
	}
	if written, err := json.Marshal(violations); err == nil {
		j.addAuditAnnotation(key, string(written))
	}
}

// judgePolicy evaluates one policy on the object, once with each of its params.
func (j *judge) judgePolicy(p *Policy, r *Request) {
	if len(p.Errors) > 0 {
		j.addSelected(p)
		j.addFailure(p, Failure{Cause: p.Errors[0], Message: "it does not compile: " + printableLine(p.Errors[0].Error(), mostIssue)})
		return
	}
	params, err := p.params(r)
	if err != nil {
		j.addSelected(p)
		j.addFailure(p, Failure{Expression: "spec.paramRef", Cause: err, Message: printableLine(err.Error(), mostIssue)})
		return
	}
	for _, param := range params {
		if j.judgeWithParam(p, r.Resource, param); j.Interrupted {
			return
		}
	}
}

// judgeWithParam evaluates one policy on the object with one of its params, or with nil.
func (j *judge) judgeWithParam(p *Policy, resource v1alpha1.GuestPolicyResource, param *unstructured.Unstructured) {
	compiled := p.programs[resource]
	e := &evaluation{judge: j, policy: p, programs: compiled, budget: celconfig.RuntimeCELCostBudgetMatchConditions, param: param}
	if param != nil {
		e.paramValue = celcommon.SchemalessTypedToVal(param.Object)
	}
	if !e.matchConditionsHold() || j.Interrupted {
		return
	}
	j.addSelected(p)
	e.budget = celconfig.RuntimeCELCostBudget
	e.runValidations()
	// As in a ValidatingAdmissionPolicy, annotations have a budget of their own, so that validations do not spend it.
	e.budget = celconfig.RuntimeCELCostBudget
	for i := 0; i < len(compiled.annotations) && !e.Interrupted && e.runAnnotation(i); i++ {
	}
}

// addSelected adds a policy that selects the object, once.
func (j *judge) addSelected(p *Policy) {
	if n := len(j.Selected); n == 0 || j.Selected[n-1] != p.Name {
		j.Selected = append(j.Selected, p.Name)
	}
}

// addFailure adds the failure of a policy, and a warning or an error as its failurePolicy requires.
func (j *judge) addFailure(p *Policy, failure Failure) {
	failure.Policy = p.Name
	text := fmt.Sprintf("GuestPolicy '%s'%s failed: %s", p.Name, withParam(failure.Param), failure.Message)
	if p.spec.FailurePolicy == v1alpha1.PolicyIgnore {
		j.Warnings = append(j.Warnings, text)
	} else {
		failure.Err = field.Forbidden(field.NewPath("spec"), text).WithOrigin(RuleFailed)
		j.Errors = append(j.Errors, failure.Err)
	}
	j.Failures = append(j.Failures, failure)
}

// addAuditAnnotation adds an annotation to the audit event.
func (j *judge) addAuditAnnotation(key, value string) {
	if j.Audit == nil {
		j.Audit = map[string]string{}
	}
	j.Audit[key] = value
}

// validationActions returns the actions of a policy; Deny by default.
func (p *Policy) validationActions() []v1alpha1.GuestPolicyAction {
	if len(p.spec.ValidationActions) == 0 {
		return []v1alpha1.GuestPolicyAction{v1alpha1.PolicyDeny}
	}
	return p.spec.ValidationActions
}

// denialError returns the error of a violated validation. A ValidatingAdmissionPolicy has the same reasons. An error says "Invalid value" only of a value: a
// field without one, such as a part of the object, is forbidden.
func denialError(reason metav1.StatusReason, at string, value any, text string) *field.Error {
	err := &field.Error{Type: field.ErrorTypeInvalid, Field: at, BadValue: value, Detail: text}
	switch {
	case reason == metav1.StatusReasonRequestEntityTooLarge:
		err.Type = field.ErrorTypeTooLong
	case value == nil || reason == metav1.StatusReasonForbidden || reason == metav1.StatusReasonUnauthorized:
		err.Type = field.ErrorTypeForbidden
	}
	return err.WithOrigin(RuleDenied)
}
