package admission

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// The namespaced and the cluster-scoped kind have one schema, and one handler.

func validateInstancetype(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	object, err := decodeObject[v1beta1.VirtualMachineInstancetype](request.Object.Raw)
	if err != nil {
		return answer{}, err
	}
	return answerMistakes(append(validate.Instancetype(&object.Spec, field.NewPath("spec")), instancetype.LifecycleMistakes(object)...),
		validate.InstancetypeWarnings(&object.Spec))
}

func validatePreference(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	object, err := decodeObject[v1beta1.VirtualMachinePreference](request.Object.Raw)
	if err != nil {
		return answer{}, err
	}
	mistakes := append(validate.Preference(&object.Spec, field.NewPath("spec")), instancetype.LifecycleMistakes(object)...)
	return answerMistakes(mistakes, validate.PreferenceWarnings(&object.Spec))
}

func validatePreset(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	object, err := decodeObject[v1.VirtualMachineInstancePreset](request.Object.Raw)
	if err != nil {
		return answer{}, err
	}
	return answerMistakes(validate.Preset(&object.Spec, field.NewPath("spec")), validate.PresetWarnings())
}

func validateHardware(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	object, err := decodeObject[v1alpha1.GuestHardware](request.Object.Raw)
	if err != nil {
		return answer{}, err
	}
	return answerMistakes(validate.GuestHardware(&object.Spec, field.NewPath("spec")), nil)
}

// validatePolicy refuses a policy that does not compile, with the position of each mistake.
func (s *Server) validatePolicy(_ context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	object, err := decodeObject[v1alpha1.GuestPolicy](request.Object.Raw)
	if err != nil {
		return answer{}, err
	}
	params, warnings, err := s.paramSchema(object.Spec.ParamKind)
	if err != nil {
		return answer{}, err
	}
	compiled, mistakes := policy.CompileTyped(object, params)
	return answerMistakes(mistakes, append(compiled.Warnings(), warnings...))
}

// paramSchema returns the schema of a paramKind, or nil. It warns of a kind that the cluster does not serve, which may come later.
func (s *Server) paramSchema(kind *v1alpha1.GuestPolicyParamKind) (params *spec.Schema, warnings []string, err error) {
	if kind == nil || s.ParamSchema == nil {
		return nil, nil, nil
	}
	if params, err = s.ParamSchema(*kind); params == nil {
		warnings = []string{fmt.Sprintf("spec.paramKind: the cluster does not serve kind %s of %s: until it does, the policy fails for each object",
			kind.Kind, kind.APIVersion)}
	}
	return params, warnings, err
}

func answerMistakes(mistakes field.ErrorList, warnings []string) (answer, error) {
	return answerVerdict(admit.Verdict{Errors: mistakes, Warnings: warnings}, nil)
}

// validateProfile judges a GuestProfile or ClusterGuestProfile with the profiles that it extends. If a profile has become illegal because its bases or the
// cluster changed, its labels and annotations can still be edited.
func (s *Server) validateProfile(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	if request.Operation == admissionv1.Update && keepsSpec(request) {
		return answer{}, nil
	}
	reviewed, err := s.Reviewer.ReviewProfile(ctx, request.Object.Raw, s.asker(request))
	return answerVerdict(reviewed.Verdict, err)
}
