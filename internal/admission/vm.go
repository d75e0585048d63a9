package admission

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// mutateVM pins a VM to revisions. Its spec stays as its owner wrote it, unless the cluster's policy is to expand it. A VM with mistakes is refused here
// already: the API server evaluates ValidatingAdmissionPolicies before validating webhooks, and they report one mistake without its value.
func (s *Server) mutateVM(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vm, old, err := readVM(request)
	if err != nil || isUnchanged(vm, old) {
		return answer{}, err
	}
	reviewed, err := s.Reviewer.PrepareVM(ctx, vm, old, s.asker(request))
	if err != nil || !reviewed.Allowed() && !s.completesRefused(ctx, request, reviewed.Resolvable()) {
		return answerVerdict(reviewed.Verdict, err)
	}
	stored, drafts := reviewed.Stored()
	return s.answerPatch(ctx, request, change{vm, stored, drafts, reviewed.Resolved.Warnings})
}

// validateVM judges a VM and the VMI that it would boot. If only metadata changed, newer rules must not refuse the update.
func (s *Server) validateVM(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vm, old, embedded, err := readWrittenVM(request)
	switch {
	case err != nil || isBeingDeleted(vm, old):
		return answer{}, err
	case old != nil && equality.Semantic.DeepEqual(vm.Spec, old.Spec) && samePins(vm, old):
		verdict, err := s.Reviewer.ReviewVMMetadata(ctx, vm, old, s.asker(request))
		return answerVerdict(s.addWrittenWarnings(request, vm, old, verdict), err)
	}
	reviewed, err := s.Reviewer.ReviewVM(ctx, vm, old, s.asker(request))
	reviewed.Errors = append(embedded, reviewed.Errors...)
	return answerVerdict(s.addWrittenWarnings(request, vm, old, reviewed.Verdict), err)
}

// addWrittenWarnings adds the warnings about a VM as its author wrote it.
func (s *Server) addWrittenWarnings(request *admissionv1.AdmissionRequest, vm, old *v1.VirtualMachine, verdict admit.Verdict) admit.Verdict {
	if verdict.Allowed() {
		verdict.Warnings = append(verdict.Warnings, validate.WrittenVMWarnings(request.Object.Raw, vm, old, s.Reviewer.Configuration().Limits)...)
	}
	return verdict
}

// readWrittenVM returns a VM, and the mistakes in the metadata that it embeds. If the VM cannot be read, the error has these mistakes: the decoder would name
// only the first one.
func readWrittenVM(request *admissionv1.AdmissionRequest) (vm, old *v1.VirtualMachine, embedded field.ErrorList, err error) {
	embedded = validate.AddedEmbeddedMetadata(request.Object.Raw, request.OldObject.Raw)
	vm, old, err = readVM(request)
	if err != nil && len(embedded) > 0 {
		err = &resolve.Refusal{Errors: embedded}
	}
	return vm, old, embedded, err
}

// validateVMStatus judges who writes the status of a VM.
func (s *Server) validateVMStatus(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vm, old, err := readVM(request)
	if err != nil || old == nil {
		return answer{}, err
	}
	return answerMistakes(validate.For(request.UserInfo.Username, s.Reviewer.Configuration().Limits, validate.VMStatusUpdate(vm, old)), nil)
}

// samePins reports whether the pins of a VM stay. Pinning presets, profiles and configuration for the first time is not a change.
func samePins(vm, old *v1.VirtualMachine) bool {
	now, was := pin.Read(vm), pin.Read(old)
	if was.Presets == nil {
		now.Presets = nil
	}
	if was.Profiles == nil {
		now.Profiles, now.Bases = nil, nil
	}
	if was.Configuration == "" {
		now.Configuration = ""
	}
	return now.Equal(was)
}

// readVM reads the VM and, on update, the old one.
func readVM(request *admissionv1.AdmissionRequest) (vm, old *v1.VirtualMachine, err error) {
	if vm, err = decodeObject[v1.VirtualMachine](request.Object.Raw); err != nil {
		return nil, nil, err
	}
	if old, err = decodeOld[v1.VirtualMachine](request); err != nil {
		return nil, nil, err
	}
	vm.Namespace = request.Namespace
	return vm, old, nil
}

// isUnchanged reports whether an update needs no decision: the VM is being deleted, and its finalizers must go whatever became of the catalog, or neither its
// spec nor admissionAnnotations changed.
func isUnchanged(vm, old *v1.VirtualMachine) bool {
	if old == nil || isBeingDeleted(vm, old) {
		return old != nil
	}
	for _, key := range admissionAnnotations {
		value, found := vm.Annotations[key]
		if was, had := old.Annotations[key]; value != was || found != had {
			return false
		}
	}
	return equality.Semantic.DeepEqual(vm.Spec, old.Spec)
}

// isBeingDeleted reports whether an update is of a VM that is being deleted, which no longer boots. It returns false for a create, even if its author has
// written a deletionTimestamp: a server-side apply stores it.
func isBeingDeleted(vm, old *v1.VirtualMachine) bool {
	return old != nil && vm.DeletionTimestamp != nil
}

// admissionAnnotations are the annotations of a VM that admission reads.
var admissionAnnotations = []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationArchitecture, v1alpha1.AnnotationInference}
