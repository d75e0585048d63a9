package policy

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/shorten"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// evaluation is the evaluation of one policy.
type evaluation struct {
	*judge
	policy *Policy
	*programs
	// budget is what may still be spent.
	budget int64
	// values are the variables that have been computed.
	values []ref.Val
	// param is what the policy is evaluated with, and paramValue its value; nil if the policy has no params.
	param      *unstructured.Unstructured
	paramValue ref.Val
}

// matchConditionsHold reports whether all match conditions are true. One that is false counts more than one that fails, as in Kubernetes.
func (e *evaluation) matchConditionsHold() bool {
	var failure *Failure
	for i, condition := range e.programs.conditions {
		value, err := e.runProgram(condition)
		switch {
		case e.Interrupted:
			return false
		case err != nil && failure == nil:
			expression := fmt.Sprintf("spec.matchConditions[%d].expression", i)
			failure = &Failure{Param: paramName(e.param), Expression: expression, Cause: err, Message: printableLine(expression+": "+err.Error(), mostIssue)}
		case err == nil && value != types.True:
			return false
		}
	}
	if failure != nil {
		e.addSelected(e.policy)
		e.addFailure(e.policy, *failure)
	}
	return failure == nil
}

// runValidations evaluates the validations while the budget lasts. The first one that exceeds the budget reports it; the others are not evaluated.
func (e *evaluation) runValidations() {
	for i := 0; i < len(e.validations) && e.runValidation(i) && !e.Interrupted; i++ {
	}
}

// runValidation evaluates a validation, and reports it if it is not true. It returns false if the budget is spent.
func (e *evaluation) runValidation(i int) bool {
	value, err := e.runProgram(e.validations[i].program)
	switch {
	case e.Interrupted || err == nil && value == types.True:
	case err != nil:
		e.expressionFailed(fmt.Sprintf("spec.validations[%d].expression", i), err)
	default:
		e.reportViolation(i)
	}
	return !errors.Is(err, errBudget)
}

// expressionFailed adds the failure of an expression of the policy.
func (e *evaluation) expressionFailed(expression string, cause error) {
	message := expression + ": " + printableLine(cause.Error(), mostIssue)
	e.addFailure(e.policy, Failure{Param: paramName(e.param), Expression: expression, Cause: cause, Message: message})
}

// reportViolation reports a validation that is not true.
func (e *evaluation) reportViolation(i int) {
	message := e.violationMessage(i)
	if e.Interrupted {
		return
	}
	param := paramName(e.param)
	text := fmt.Sprintf("GuestPolicy '%s'%s: %s", e.policy.Name, withParam(param), message)
	at, value := e.input.deepestExistingPath(e.validations[i].field)
	found := Violation{Policy: e.policy.Name, Param: param, Validation: i, Name: e.policy.spec.Validations[i].Name, Message: message,
		Actions: e.policy.validationActions(),
		Err:     denialError(e.policy.spec.Validations[i].Reason, at, value, text)}
	exception := e.exceptionFor(i)
	if exception != nil {
		found.Exception, found.Until = exception.Name, new(metav1.NewTime(exception.Expires()))
		text = permittedText(text, exception)
		e.excepted = appendAudited(e.excepted, found)
	}
	e.Violations = append(e.Violations, found)
	for _, action := range found.Actions {
		switch {
		case action == v1alpha1.PolicyDeny && exception == nil:
			e.Errors = append(e.Errors, found.Err)
		case action == v1alpha1.PolicyDeny, action == v1alpha1.PolicyWarn:
			e.Warnings = append(e.Warnings, text)
		case action == v1alpha1.PolicyAudit:
			e.audited = appendAudited(e.audited, found)
		}
	}
}

// permittedText returns the warning of a violation that an exception permits. An API server may cut it after 256 characters: of a longer text the end is left
// out, and not why the object is admitted.
func permittedText(violation string, by *Exception) string {
	suffix := fmt.Sprintf("; permitted until %s by GuestPolicyException '%s'", FormatExpiry(by.Expires()), shorten.Runes(by.Name, mostName))
	return shorten.Runes(violation, 256-utf8.RuneCountInString(suffix)) + suffix
}

// appendAudited adds a violation to a list of the audit event, within its bounds.
func appendAudited(list []Violation, found Violation) []Violation {
	if len(list) == MostAudited {
		return list
	}
	found.Message = printableLine(found.Message, mostAuditedMessage)
	return append(list, found)
}

// withParam is the part of a message that names the param by which a policy is violated or fails.
func withParam(param string) string {
	if param == "" {
		return ""
	}
	return " with " + param
}

// runAnnotation evaluates an audit annotation. One that fails is left out if the failurePolicy ignores failures, as in Kubernetes. It returns false if
// the budget is spent.
func (e *evaluation) runAnnotation(i int) bool {
	value, err := e.runProgram(e.annotations[i])
	if err != nil {
		if !e.Interrupted && e.policy.spec.FailurePolicy != v1alpha1.PolicyIgnore {
			e.expressionFailed(fmt.Sprintf("spec.auditAnnotations[%d].valueExpression", i), err)
		}
		return !errors.Is(err, errBudget)
	}
	if text, ok := value.Value().(string); ok {
		if text = printableLine(trimSpace(text), mostAnnotation); text != "" {
			key := e.policy.Name + "/" + e.policy.spec.AuditAnnotations[i].Key
			e.addAuditAnnotation(key, joinAudited(e.Audit[key], text))
		}
	}
	return true
}

// errBudget is the error of an expression after the policy has spent its budget.
var errBudget = errors.New("the policy exceeds its cost budget for one object")

// runProgram evaluates an expression, and spends its cost. The variables that it reads first are evaluated by runProgram, too, while it runs, and spend theirs.
// An expression whose cost is over Kubernetes' limit of one call fails by itself. A panic in cel-go is an error of the expression: Eval recovers from it.
func (e *evaluation) runProgram(program *program) (ref.Val, error) {
	if e.budget < 0 {
		return nil, errBudget
	}
	var (
		value   ref.Val
		details *cel.EvalDetails
		err     error
	)
	if program.loops {
		value, details, err = program.ContextEval(e.context, e)
	} else {
		value, details, err = program.Eval(e)
	}
	if errors.Is(err, interpreter.InterruptError{}) || e.stop.Err() != nil {
		e.Interrupted = true
	}
	if details == nil || details.ActualCost() == nil {
		e.budget = -1
		return nil, errors.Join(err, errors.New("its cost is not known"))
	}
	spent := *details.ActualCost()
	e.Cost += spent
	if e.budget < 0 || spent > uint64(e.budget) { // a variable may have spent it meanwhile
		e.budget = -1
		return nil, errBudget
	}
	e.budget -= int64(spent)
	return value, err
}

// stopping is a context that ends when a channel is closed.
type stopping struct{ done <-chan struct{} }

// Deadline implements context.Context.
func (stopping) Deadline() (deadline time.Time, ok bool) { return deadline, false }

// Done implements context.Context.
func (s stopping) Done() <-chan struct{} { return s.done }

// Value implements context.Context.
func (stopping) Value(any) any { return nil }

// Err implements context.Context.
func (s stopping) Err() error {
	select {
	case <-s.done:
		return context.Canceled
	default:
		return nil
	}
}
