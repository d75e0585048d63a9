package policy

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The words of a policy, as its definition has them.
var (
	resources  = []v1alpha1.GuestPolicyResource{v1alpha1.PolicyVirtualMachines, v1alpha1.PolicyVirtualMachineInstances}
	operations = []v1alpha1.GuestPolicyOperation{v1alpha1.PolicyCreate, v1alpha1.PolicyUpdate}
	actions    = []v1alpha1.GuestPolicyAction{v1alpha1.PolicyDeny, v1alpha1.PolicyWarn, v1alpha1.PolicyAudit}
	failures   = []v1alpha1.GuestPolicyFailure{v1alpha1.PolicyFail, v1alpha1.PolicyIgnore, ""}
	reasons    = []metav1.StatusReason{metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid,
		metav1.StatusReasonRequestEntityTooLarge, ""}
)

// checkWords checks the fields that have one of a few values.
func (p *Policy) checkWords(at *field.Path) (errs field.ErrorList) {
	match := at.Child("matchConstraints")
	errs = append(errs, checkWordSet(match.Child("resources"), p.spec.MatchConstraints.Resources, resources)...)
	errs = append(errs, checkWordSet(match.Child("operations"), p.spec.MatchConstraints.Operations, operations)...)
	errs = append(errs, checkWordSet(at.Child("validationActions"), p.spec.ValidationActions, actions)...)
	if slices.Contains(p.spec.ValidationActions, v1alpha1.PolicyDeny) && slices.Contains(p.spec.ValidationActions, v1alpha1.PolicyWarn) {
		errs = append(errs, field.Invalid(at.Child("validationActions"), p.spec.ValidationActions, "Deny and Warn exclude each other"))
	}
	errs = append(errs, p.checkParams(at)...)
	errs = append(errs, p.checkExceptions(at.Child("exceptions"))...)
	errs = append(errs, checkWord(at.Child("failurePolicy"), p.spec.FailurePolicy, failures)...)
	for i, v := range p.spec.Validations {
		errs = append(errs, checkWord(at.Child("validations").Index(i).Child("reason"), v.Reason, reasons)...)
	}
	return errs
}

// checkWordSet checks a list of words, each of which may occur once.
func checkWordSet[T ~string](at *field.Path, given, known []T) (errs field.ErrorList) {
	for i, word := range given[:min(len(given), len(known))] {
		errs = append(errs, checkWord(at.Index(i), word, known)...)
		if slices.Contains(given[:i], word) {
			errs = append(errs, field.Duplicate(at.Index(i), printableLine(string(word), mostName)))
		}
	}
	if len(given) > len(known) {
		errs = append(errs, field.TooMany(at, len(given), len(known)))
	}
	return errs
}

// checkWord checks one word. If it is empty, the default applies.
func checkWord[T ~string](at *field.Path, given T, known []T) field.ErrorList {
	if slices.Contains(known, given) {
		return nil
	}
	named := slices.DeleteFunc(slices.Clone(known), func(word T) bool { return word == "" })
	return field.ErrorList{field.NotSupported(at, T(printableLine(string(given), mostName)), named)}
}
