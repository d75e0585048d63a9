package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Exception is a GuestPolicyException, ready for reviews. It is immutable.
type Exception struct {
	// Name is NAMESPACE/NAME.
	Name string

	of *v1alpha1.GuestPolicyException
	// names are the names of VMs, and selector selects VMs. Only one of them is set.
	names    map[string]bool
	selector labels.Selector
	// validations are the validations by policy; an empty list means all.
	validations map[string][]string
}

// ExceptionSource returns the exceptions of a namespace in the order of CompareExceptions.
type ExceptionSource func(namespace string) []*Exception

// NewException prepares an exception. One with a wrong selector selects no VM.
func NewException(of *v1alpha1.GuestPolicyException) *Exception {
	x := &Exception{Name: of.Namespace + "/" + of.Name, of: of, names: map[string]bool{}, validations: map[string][]string{}}
	for _, name := range of.Spec.VirtualMachines.Names {
		x.names[name] = true
	}
	if selector := of.Spec.VirtualMachines.Selector; selector != nil {
		if parsed, err := metav1.LabelSelectorAsSelector(selector); err == nil {
			x.selector = parsed
		}
	}
	for _, named := range of.Spec.Policies {
		x.validations[named.Name] = named.Validations
	}
	return x
}

// Same reports whether another version of the exception has the same effect. It is false for nil.
func (x *Exception) Same(as *v1alpha1.GuestPolicyException) bool {
	return x != nil && x.of.UID == as.UID && x.of.Generation == as.Generation && slices.Equal(x.of.Status.Approvals, as.Status.Approvals)
}

// Policies returns the names of the policies that may be violated.
func (x *Exception) Policies() []string {
	var names []string
	for _, named := range x.of.Spec.Policies {
		names = append(names, named.Name)
	}
	return names
}

// Expires returns the time from which the exception has no effect.
func (x *Exception) Expires() time.Time { return x.of.Spec.Expires.Time }

// Selects reports whether the exception is for an object. The name of an object with a generateName is not known while it is created.
func (x *Exception) Selects(object metav1.Object) bool {
	if object.GetNamespace() != x.of.Namespace {
		return false
	}
	return x.names[object.GetName()] || x.selector != nil && x.selector.Matches(labels.Set(object.GetLabels()))
}

// covers reports whether the exception is for a validation of a policy; name is empty for a validation without a name.
func (x *Exception) covers(policy, name string) bool {
	validations, named := x.validations[policy]
	return named && (len(validations) == 0 || name != "" && slices.Contains(validations, name))
}

// CompareExceptions sorts the exception that lasts longest first.
func CompareExceptions(a, b *Exception) int {
	return cmp.Or(b.Expires().Compare(a.Expires()), strings.Compare(a.Name, b.Name))
}

// ExceptionState is whether an exception has an effect for one policy. Reason is a reason of condition InForce of a GuestPolicyException.
type ExceptionState struct {
	Reason, Message string
}

// InForce reports whether the exception has an effect.
func (s ExceptionState) InForce() bool { return s.Reason == v1alpha1.ReasonApproved }

// ExceptionState returns whether an exception has an effect for the policy at a time. It reads no stored result: an exception ends by its date even if no
// process ran at that time, and it has its effect again after a clock was wrong.
func (p *Policy) ExceptionState(of *v1alpha1.GuestPolicyException, now time.Time) ExceptionState {
	if mistakes := p.ExceptionMistakes(of, now); len(mistakes) > 0 {
		return ExceptionState{v1alpha1.ReasonNotAllowed, mistakes[0].Field + ": " + mistakes[0].Detail}
	}
	at := slices.IndexFunc(of.Status.Approvals, func(approval v1alpha1.GuestPolicyExceptionApproval) bool { return approval.Policy == p.Name })
	if at < 0 {
		return ExceptionState{v1alpha1.ReasonNotApproved, fmt.Sprintf("GuestPolicy '%s': nobody has approved the exception", p.Name)}
	}
	if why := p.approvalFault(of, of.Status.Approvals[at]); why != "" {
		return ExceptionState{v1alpha1.ReasonNotApproved, fmt.Sprintf("GuestPolicy '%s': %s", p.Name, why)}
	}
	if !now.Before(of.Spec.Expires.Time) {
		return ExceptionState{v1alpha1.ReasonExpired, "it ended at " + FormatExpiry(of.Spec.Expires.Time)}
	}
	return ExceptionState{v1alpha1.ReasonApproved, ""}
}

// StateByPolicy is Policy.ExceptionState for a policy that is not compiled: the state depends on no expression.
func StateByPolicy(stored *v1alpha1.GuestPolicy, of *v1alpha1.GuestPolicyException, now time.Time) ExceptionState {
	return (&Policy{Name: stored.Name, spec: stored.Spec}).ExceptionState(of, now)
}

// FormatExpiry returns a time as messages have it.
func FormatExpiry(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

// approvalFault returns why an approval has no effect; empty if it has.
func (p *Policy) approvalFault(of *v1alpha1.GuestPolicyException, approval v1alpha1.GuestPolicyExceptionApproval) string {
	switch {
	case approval.By == "" || of.Spec.RequestedBy == "":
		return "admission has not recorded who requested the exception, and who approved it"
	case approval.By == of.Spec.RequestedBy:
		return "the account that requested the exception must not approve it"
	case approval.Generation != of.Generation:
		return "spec has changed since the exception was approved"
	case !slices.Contains(p.spec.Exceptions.Approvers, approval.As):
		return "its approver is not in spec.exceptions.approvers of the policy any more"
	}
	return ""
}

// Approver returns the first element of spec.exceptions.approvers to which an account belongs.
func (p *Policy) Approver(user authenticationv1.UserInfo) (v1alpha1.GuestPolicyApprover, bool) {
	if p.spec.Exceptions == nil {
		return v1alpha1.GuestPolicyApprover{}, false
	}
	for _, approver := range p.spec.Exceptions.Approvers {
		switch approver.Kind {
		case approverUser:
			if user.Username == approver.Name {
				return approver, true
			}
		case approverGroup:
			if slices.Contains(user.Groups, approver.Name) {
				return approver, true
			}
		case approverServiceAccount:
			if user.Username == "system:serviceaccount:"+approver.Namespace+":"+approver.Name {
				return approver, true
			}
		}
	}
	return v1alpha1.GuestPolicyApprover{}, false
}

// Kinds of approvers.
const (
	approverUser           = "User"
	approverGroup          = "Group"
	approverServiceAccount = "ServiceAccount"
)

// ExceptionMistakes returns what an exception asks for that the policy does not permit. The time from its creation to its end counts, so that the clock that
// approves an exception does not make it longer; an exception that does not exist yet is created now.
func (p *Policy) ExceptionMistakes(of *v1alpha1.GuestPolicyException, now time.Time) (errs field.ErrorList) {
	at := field.NewPath("spec")
	below := at.Child("policies").Index(max(0, slices.IndexFunc(of.Spec.Policies, func(named v1alpha1.GuestPolicyExceptionPolicy) bool {
		return named.Name == p.Name
	})))
	permitted := p.spec.Exceptions
	if permitted == nil || !permitted.Allowed || permitted.MaxDuration == nil {
		return field.ErrorList{field.Forbidden(below.Child("name"), fmt.Sprintf("GuestPolicy '%s' permits no exceptions (spec.exceptions.allowed)", p.Name))}
	}
	created := of.CreationTimestamp.Time
	if created.IsZero() {
		created = now
	}
	if last := created.Add(permitted.MaxDuration.Duration); of.Spec.Expires.After(last) {
		errs = append(errs, field.Forbidden(at.Child("expires"), fmt.Sprintf(
			"GuestPolicy '%s' permits exceptions of at most %s: this one may last until %s", p.Name, permitted.MaxDuration.Duration, FormatExpiry(last))))
	}
	if of.Spec.VirtualMachines.Selector != nil && !permitted.Selectors {
		errs = append(errs, field.Forbidden(at.Child("virtualMachines", "selector"), fmt.Sprintf(
			"GuestPolicy '%s' permits only exceptions by spec.virtualMachines.names (spec.exceptions.selectors)", p.Name)))
	}
	return append(errs, p.unknownValidations(of, below)...)
}

// ExceptionRequestMistakes returns the mistakes of an exception that is written at a time, and warnings of policies that do not exist.
func ExceptionRequestMistakes(policies []*Policy, of *v1alpha1.GuestPolicyException, now time.Time) (errs field.ErrorList, warnings []string) {
	at := field.NewPath("spec")
	if !now.Before(of.Spec.Expires.Time) {
		errs = append(errs, field.Invalid(at.Child("expires"), FormatExpiry(of.Spec.Expires.Time), "is over"))
	}
	if selector := of.Spec.VirtualMachines.Selector; selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			errs = append(errs, field.Forbidden(at.Child("virtualMachines", "selector"), err.Error()))
		}
	}
	for i, named := range of.Spec.Policies {
		found := slices.IndexFunc(policies, func(p *Policy) bool { return p.Name == named.Name })
		if found < 0 {
			warnings = append(warnings, fmt.Sprintf("spec.policies[%d].name: there is no GuestPolicy '%s'", i, printableLine(named.Name, mostName)))
			continue
		}
		errs = append(errs, policies[found].ExceptionMistakes(of, now)...)
	}
	return errs, warnings
}

// unknownValidations returns a mistake for each validation that the policy does not have.
func (p *Policy) unknownValidations(of *v1alpha1.GuestPolicyException, below *field.Path) (errs field.ErrorList) {
	var known []string
	for _, validation := range p.spec.Validations {
		if validation.Name != "" {
			known = append(known, validation.Name)
		}
	}
	for _, named := range of.Spec.Policies {
		for i, name := range named.Validations {
			if named.Name != p.Name || slices.Contains(known, name) {
				continue
			}
			of := below.Child("validations").Index(i)
			if len(known) == 0 {
				errs = append(errs, field.Invalid(of, printableLine(name, mostName), fmt.Sprintf("the validations of GuestPolicy '%s' have no names", p.Name)))
			} else {
				errs = append(errs, field.NotSupported(of, printableLine(name, mostName), known))
			}
		}
	}
	return errs
}

// exceptionFor returns the exception by which the object of the request may violate a validation, or nil.
func (e *evaluation) exceptionFor(i int) *Exception {
	if e.policy.spec.Exceptions == nil {
		return nil
	}
	name := e.policy.spec.Validations[i].Name
	for _, x := range e.exceptionsOfObject() {
		if x.covers(e.policy.Name, name) && e.policy.ExceptionState(x.of, e.input.request.Now).InForce() {
			return x
		}
	}
	return nil
}

// exceptionsOfObject returns the exceptions that select the object of the request and that have not ended. They are searched once for all policies: a namespace
// may have 1,000 exceptions.
func (j *judge) exceptionsOfObject() []*Exception {
	r := j.input.request
	if j.exceptionsKnown || r.Exceptions == nil {
		return j.exceptions
	}
	j.exceptionsKnown = true
	for _, x := range r.Exceptions(r.Object.GetNamespace()) {
		if !r.Now.Before(x.Expires()) { // the next ones have ended, too, because the exception that lasts longest is the first one
			break
		}
		if x.Selects(r.Object) {
			j.exceptions = append(j.exceptions, x)
		}
	}
	return j.exceptions
}

// checkExceptions checks spec.exceptions of a policy.
func (p *Policy) checkExceptions(at *field.Path) (errs field.ErrorList) {
	s := p.spec.Exceptions
	if s == nil {
		return nil
	}
	switch {
	case s.MaxDuration != nil && s.MaxDuration.Duration <= 0:
		errs = append(errs, field.Invalid(at.Child("maxDuration"), s.MaxDuration.Duration.String(), "must be positive, such as 168h"))
	case s.Allowed && s.MaxDuration == nil:
		errs = append(errs, field.Required(at.Child("maxDuration"), "name the longest time of an exception, such as 168h"))
	}
	if s.Allowed && len(s.Approvers) == 0 {
		errs = append(errs, field.Required(at.Child("approvers"), "name who may approve an exception"))
	}
	if len(s.Approvers) > mostApprovers {
		return append(errs, field.TooMany(at.Child("approvers"), len(s.Approvers), mostApprovers))
	}
	for i, approver := range s.Approvers {
		below := at.Child("approvers").Index(i)
		errs = append(errs, checkWord(below.Child("kind"), approver.Kind, []string{approverUser, approverGroup, approverServiceAccount})...)
		if approver.Name == "" {
			errs = append(errs, field.Required(below.Child("name"), ""))
		}
		switch isAccount := approver.Kind == approverServiceAccount; {
		case isAccount && approver.Namespace == "":
			errs = append(errs, field.Required(below.Child("namespace"), "a ServiceAccount has a namespace"))
		case !isAccount && approver.Namespace != "":
			errs = append(errs, field.Forbidden(below.Child("namespace"), "only a ServiceAccount has a namespace"))
		}
	}
	return errs
}

// mostApprovers is how many approvers a policy may name. The definition has the limit, too.
const mostApprovers = 32
