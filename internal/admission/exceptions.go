package admission

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// An exception records who requested it and who approved it. Admission writes both from the account of the request, and the validating webhook compares them
// with the account again: other mutating webhooks run between the two.

// RuleException is the Origin of errors about the accounts of an exception.
const RuleException = "exception/account"

// mutateException records the requesting account in an exception, and the approving account in its approvals.
func (s *Server) mutateException(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	sent, old, err := readException(request)
	if err != nil {
		return answer{}, err
	}
	stored := sent.DeepCopy()
	if request.SubResource != "status" {
		stored.Spec.RequestedBy = requesterOf(request, sent, old)
	} else if err := s.recordApprovals(request, stored, old); err != nil {
		return answer{}, err
	}
	return s.answerPatch(ctx, request, change{sent: sent, stored: stored})
}

// readException reads the exception of a request, and the one before an update; nil on create.
func readException(request *admissionv1.AdmissionRequest) (sent, old *v1alpha1.GuestPolicyException, err error) {
	sent, err = decodeObject[v1alpha1.GuestPolicyException](request.Object.Raw)
	if err == nil {
		old, err = decodeOld[v1alpha1.GuestPolicyException](request)
	}
	return sent, old, err
}

// recordApprovals writes the account of a request into the approvals that are new or changed.
func (s *Server) recordApprovals(request *admissionv1.AdmissionRequest, stored, old *v1alpha1.GuestPolicyException) error {
	policies, err := s.Reviewer.CurrentPolicies()
	if err != nil {
		return err
	}
	for i := range stored.Status.Approvals {
		if approval := &stored.Status.Approvals[i]; !hasApproval(old, *approval) {
			recordApproval(approval, request, old, policyNamed(policies, approval.Policy))
		}
	}
	return nil
}

// requesterOf returns the account that requested the exception as it is sent: an update that changes nothing else keeps the account.
func requesterOf(request *admissionv1.AdmissionRequest, sent, old *v1alpha1.GuestPolicyException) string {
	if old != nil && !changesException(sent, old) {
		return old.Spec.RequestedBy
	}
	return request.UserInfo.Username
}

// changesException reports whether an update changes the spec apart from requestedBy.
func changesException(is, was *v1alpha1.GuestPolicyException) bool {
	before := was.Spec
	before.RequestedBy = is.Spec.RequestedBy
	return !equality.Semantic.DeepEqual(is.Spec, before)
}

// hasApproval reports whether an exception has an approval already.
func hasApproval(old *v1alpha1.GuestPolicyException, approval v1alpha1.GuestPolicyExceptionApproval) bool {
	return old != nil && slices.Contains(old.Status.Approvals, approval)
}

// recordApproval writes the account of a request into an approval. p is nil if there is no such policy. What an approver sets stays if it is
// the generation: the validating webhook compares it.
func recordApproval(
	approval *v1alpha1.GuestPolicyExceptionApproval, request *admissionv1.AdmissionRequest, of *v1alpha1.GuestPolicyException, p *policy.Policy,
) {
	approval.By, approval.As = request.UserInfo.Username, v1alpha1.GuestPolicyApprover{}
	if p != nil {
		approval.As, _ = p.Approver(request.UserInfo)
	}
	if approval.Generation == 0 && of != nil {
		approval.Generation = of.Generation
	}
}

// validateException refuses an exception that its policies do not permit, and accounts that admission has not recorded.
func (s *Server) validateException(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	is, was, err := readException(request)
	if err != nil {
		return answer{}, err
	}
	policies, err := s.Reviewer.CurrentPolicies()
	switch {
	case err != nil:
		return answer{}, err
	case request.SubResource == "status" && was != nil:
		return answerMistakes(approvalMistakes(request, is, was, policies), nil)
	}
	return answerMistakes(requestMistakes(request, is, was, policies, s.Reviewer.CurrentTime()))
}

// requestMistakes returns the mistakes of an exception that is created or whose spec is changed, and warnings.
func requestMistakes(
	request *admissionv1.AdmissionRequest, is, was *v1alpha1.GuestPolicyException, policies []*policy.Policy, now time.Time,
) (errs field.ErrorList, warnings []string) {
	if want := requesterOf(request, is, was); is.Spec.RequestedBy != want {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "requestedBy"), fmt.Sprintf(
			"is written only by admission, which records the account that requests the exception: '%s'", want)).WithOrigin(RuleException))
	}
	if was != nil && !changesException(is, was) {
		return errs, nil
	}
	if was == nil {
		is.CreationTimestamp = metav1.Time{} // the API server sets it, whatever its author wrote
	}
	wrong, warnings := policy.ExceptionRequestMistakes(policies, is, now)
	return append(errs, wrong...), warnings
}

// approvalMistakes returns the mistakes in the approvals that an update of the status adds or changes. Everyone who may write the status may take approvals
// away. The spec of was counts: an API server does not store the spec of an update of the status.
func approvalMistakes(
	request *admissionv1.AdmissionRequest, is, was *v1alpha1.GuestPolicyException, policies []*policy.Policy,
) (errs field.ErrorList) {
	account := request.UserInfo.Username
	for i, approval := range is.Status.Approvals {
		if hasApproval(was, approval) {
			continue
		}
		at := field.NewPath("status", "approvals").Index(i)
		p := policyNamed(policies, approval.Policy)
		want := approval
		recordApproval(&want, request, was, p)
		switch {
		case !slices.ContainsFunc(was.Spec.Policies, func(named v1alpha1.GuestPolicyExceptionPolicy) bool { return named.Name == approval.Policy }):
			errs = append(errs, field.Invalid(at.Child("policy"), approval.Policy, "spec.policies does not have this policy"))
		case p == nil:
			errs = append(errs, field.NotFound(at.Child("policy"), approval.Policy))
		case want.As == (v1alpha1.GuestPolicyApprover{}):
			errs = append(errs, field.Forbidden(at, fmt.Sprintf(
				"'%s' is not among spec.exceptions.approvers of GuestPolicy '%s'", account, approval.Policy)).WithOrigin(RuleException))
		case account == was.Spec.RequestedBy:
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("'%s' requested the exception: somebody else must approve it", account)).WithOrigin(RuleException))
		case approval.Generation != was.Generation:
			errs = append(errs, field.Forbidden(at.Child("generation"), fmt.Sprintf(
				"spec has changed since generation %d: read generation %d and approve it", approval.Generation, was.Generation)))
		case approval != want:
			errs = append(errs, field.Forbidden(at, "by and as are written only by admission, which records the account that approves").WithOrigin(RuleException))
		}
	}
	return errs
}

// policyNamed returns the policy of a name, or nil.
func policyNamed(policies []*policy.Policy, name string) *policy.Policy {
	if at := slices.IndexFunc(policies, func(p *policy.Policy) bool { return p.Name == name }); at >= 0 {
		return policies[at]
	}
	return nil
}
