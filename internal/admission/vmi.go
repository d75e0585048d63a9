package admission

import (
	"context"
	"slices"

	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// mutateVMI makes a VMI explicit: the instancetype and preference of its pins, presets, defaults. A VMI with mistakes is refused here
// already, see mutateVM. The validating webhook judges it again, because other webhooks may have changed it. An update by KubeVirt loses recorded addresses
// that the guest needs no more.
func (s *Server) mutateVMI(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vmi, _, err := readVMI(request)
	switch {
	case err != nil:
		return answer{}, err
	case request.Operation != admissionv1.Create:
		return s.answerPatch(ctx, request, change{sent: vmi, stored: s.Reviewer.ForgetAddresses(vmi, request.UserInfo.Username)})
	}
	return s.completeVMI(ctx, request, vmi)
}

// completeVMI answers with the explicit VMI. A VMI with mistakes is completed only where admission warns.
func (s *Server) completeVMI(ctx context.Context, request *admissionv1.AdmissionRequest, vmi *v1.VirtualMachineInstance) (answer, error) {
	reviewed, err := s.Reviewer.PrepareVMI(ctx, vmi, s.asker(request))
	if err != nil || !reviewed.Allowed() && !s.completesRefused(ctx, request, reviewed.Merged.Allowed()) {
		return answerVerdict(reviewed.Verdict, err)
	}
	// Drafts of revisions that exist are of revisions that the collector has marked: they are written again, so that they stay.
	warnings := slices.Concat(reviewed.Merged.Warnings, validate.CountWarnings(request.Object.Raw)) // an explicit VMI has no such numbers
	completed, err := s.answerPatch(ctx, request, change{vmi, reviewed.Explicit, reviewed.Resolved.Drafts, warnings})
	return addVerdict(completed, err, reviewed)
}

// addVerdict adds the verdict on a VMI to its completion if the validating webhook does not reach the same verdict again.
func addVerdict(completed answer, err error, reviewed review.VMI) (answer, error) {
	if err != nil || reviewed.Allowed() || reviewed.Rejudged() {
		return completed, err
	}
	given, refusal := answerVerdict(reviewed.Verdict, nil)
	given.patch = completed.patch
	return given, refusal
}

// validateVMI judges an explicit VMI, and the changes of an update, also while the VMI is being deleted, because its hardware is recorded before it goes. No
// rule judges changes of finalizers and other metadata.
func (s *Server) validateVMI(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vmi, old, err := readVMI(request)
	if err != nil {
		return answer{}, err
	}
	if old == nil {
		return answerVerdict(s.Reviewer.ReviewExplicitVMI(ctx, vmi, s.asker(request)))
	}
	verdict, err := s.Reviewer.ReviewVMIUpdate(ctx, vmi, old, s.asker(request))
	return answerMistakenUpdate(validate.GuestUpdate(validate.GuestChange{New: vmi, Old: old, By: requestAccount(request)}, s.Reviewer.Configuration().Limits),
		verdict, err)
}

// answerMistakenUpdate adds mistakes to a verdict. With mistakes, an error of the review does not count: what a forged pin names cannot be read, and that is
// no fault of Kiln.
func answerMistakenUpdate(mistakes field.ErrorList, verdict admit.Verdict, err error) (answer, error) {
	if len(mistakes) > 0 {
		err = nil
	}
	verdict.Errors = append(mistakes, verdict.Errors...)
	return answerVerdict(verdict, err)
}

// validateVMIStatus judges who writes the status of a VMI.
func (s *Server) validateVMIStatus(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vmi, old, err := readVMI(request)
	if err != nil || old == nil {
		return answer{}, err
	}
	change := validate.GuestChange{New: vmi, Old: old, By: requestAccount(request)}
	return answerMistakes(validate.GuestStatusUpdate(change, s.Reviewer.Configuration().Limits), nil)
}

// validateStatus judges who writes the status of a VM or a VMI.
func (s *Server) validateStatus(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	if request.Kind.Kind == v1.VirtualMachineGroupVersionKind.Kind {
		return s.validateVMStatus(ctx, request)
	}
	return s.validateVMIStatus(ctx, request)
}

// readVMI reads the VMI and, on update, the old one.
func readVMI(request *admissionv1.AdmissionRequest) (vmi, old *v1.VirtualMachineInstance, err error) {
	if vmi, err = decodeObject[v1.VirtualMachineInstance](request.Object.Raw); err != nil {
		return nil, nil, err
	}
	if old, err = decodeOld[v1.VirtualMachineInstance](request); err != nil {
		return nil, nil, err
	}
	vmi.Namespace = request.Namespace
	return vmi, old, nil
}

// nodeClaim is the key under which an API server names the node of the pod that a token is bound to.
const nodeClaim = "authentication.kubernetes.io/node-name"

// requestAccount returns the requesting account.
func requestAccount(request *admissionv1.AdmissionRequest) validate.Account {
	by := validate.Account{Name: request.UserInfo.Username}
	if nodes := request.UserInfo.Extra[nodeClaim]; len(nodes) > 0 {
		by.Node = nodes[0]
	}
	return by
}
