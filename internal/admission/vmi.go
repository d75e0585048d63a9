package admission

import (
	"context"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/pipeline"
	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
	v1 "kubevirt.io/api/core/v1"
)

// mutateVMI makes a VMI explicit: the size and preference of its pins, presets, defaults.
func (s *Server) mutateVMI(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vmi, err := decode[v1.VirtualMachineInstance](request.Object.Raw)
	if err != nil || request.Operation != admissionv1.Create {
		return answer{}, err
	}
	vmi.Namespace = request.Namespace
	resolved, err := s.Resolver.VMI(ctx, vmi)
	if err != nil {
		return answer{}, err
	}
	in, err := s.input(ctx, request.Namespace, resolved)
	if err != nil {
		return answer{}, err
	}
	explicit, agreed := pipeline.ExplicitVMI(vmi, in)
	agreed.Warnings = append(resolved.Warnings, agreed.Warnings...)
	given, err := verdict(agreed)
	if err != nil {
		return given, err
	}
	if given.patch, err = pipeline.Patch(request.Object.Raw, vmi, explicit); err == nil && (request.DryRun == nil || !*request.DryRun) {
		err = s.Write(ctx, resolved.Drafts...) // a revision that the collector has marked stays
	}
	return given, err
}

// validateVMI judges an explicit VMI, and what was changed in one that exists.
func (s *Server) validateVMI(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	vmi, err := decode[v1.VirtualMachineInstance](request.Object.Raw)
	if err != nil || vmi.DeletionTimestamp != nil {
		return answer{}, err
	}
	vmi.Namespace = request.Namespace
	old, err := decodeOld[v1.VirtualMachineInstance](request)
	if err != nil {
		return answer{}, err
	}
	if old == nil {
		return verdict(pipeline.JudgeVMI(vmi, pipeline.Input{Cluster: s.Cluster(), User: request.UserInfo.Username}))
	}
	// Nothing of Kiln changes the spec of a guest that exists, so that nobody is exempt from that.
	errs := validate.For(request.UserInfo.Username, s.Cluster().Limits, validate.GuestUpdate(vmi, old))
	if len(errs) > 0 {
		return answer{}, &resolve.Refusal{Errors: errs}
	}
	return answer{}, nil
}
