// Package admission is stage 1 as webhooks: it makes objects explicit, judges them and pins what they were made from.
// Its verbs only decode, review, patch and answer; what is right or wrong is for the engine to say.
package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/patch"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Server holds what the handlers need besides the request.
type Server struct {
	Reviewer review.Reviewer
	// MayRead reports what the caller of a request may read.
	MayRead MayRead
	// Write stores the ControllerRevisions that a VM or VMI is pinned to, before the object exists: no window is left in which an instancetype can
	// change between the answer and the first start. It is never called in a dry run.
	Write func(context.Context, ...revision.Draft) error
}

// The paths of the webhook configurations.
const (
	MutateVM             = "/mutate/virtualmachines"
	MutateVMI            = "/mutate/virtualmachineinstances"
	ValidateVM           = "/validate/virtualmachines"
	ValidateVMI          = "/validate/virtualmachineinstances"
	ValidateStatus       = "/validate/status"
	ValidatePreset       = "/validate/virtualmachineinstancepresets"
	ValidateInstancetype = "/validate/instancetypes"
	ValidatePreference   = "/validate/preferences"
	ValidateHardware     = "/validate/guesthardwares"
)

// Hooks returns all webhooks by path. They share the capacity for reviews in progress, because they share the memory of the process.
func (s *Server) Hooks() map[string]Hook {
	capacity, hooks := newCapacity(), map[string]Hook{}
	for path, handle := range map[string]handler{
		MutateVM:             skipUnreadable(s.mutateVM),
		MutateVMI:            skipUnreadable(s.mutateVMI),
		ValidateVM:           s.validateVM,
		ValidateVMI:          s.validateVMI,
		ValidateStatus:       s.validateStatus,
		ValidatePreset:       validatePreset,
		ValidateInstancetype: validateInstancetype,
		ValidatePreference:   validatePreference,
		ValidateHardware:     validateHardware,
	} {
		hooks[path] = Hook{handle, capacity}
	}
	return hooks
}

// answer is what a handler returns for a request that it allows. Beside it a handler returns errors: those of type *resolve.Refusal are the
// user's mistakes, all others are faults of Kiln or of the cluster.
type answer struct {
	// patch is RFC 6902; nil when nothing changes.
	patch    []byte
	warnings []string
}

// handler decides one request.
type handler func(context.Context, *admissionv1.AdmissionRequest) (answer, error)

// decode reads an object of a request into the type that this webhook is for. v1alpha3 and v1 have one schema. What the
// schema lets pass and the type does not, such as a label that is a number, is the user's mistake.
func decode[T any](raw []byte) (*T, error) {
	object := new(T)
	err := json.Unmarshal(raw, object)
	if err == nil {
		return object, nil
	}
	mistake := &field.Error{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{}, Detail: err.Error()}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		mistake.Field, mistake.Type = wrong.Field, field.ErrorTypeTypeInvalid
		mistake.Detail = fmt.Sprintf("must be of type %s, not %s", wrong.Type, wrong.Value)
	}
	return nil, &unreadable{&resolve.Refusal{Errors: field.ErrorList{mistake}}}
}

// decodeOld reads the old object of an update; nil on create.
func decodeOld[T any](request *admissionv1.AdmissionRequest) (*T, error) {
	if request.Operation != admissionv1.Update {
		return nil, nil
	}
	return decode[T](request.OldObject.Raw)
}

// change is an object as it was sent and as it is to be stored, with the revisions that have to exist before it.
type change struct {
	sent, stored any
	drafts       []revision.Draft
	warnings     []string
}

// patched answers with the change as a patch, after its revisions have been written.
func (s *Server) patched(ctx context.Context, request *admissionv1.AdmissionRequest, c change) (answer, error) {
	patch, err := patch.Write(request.Object.Raw, c.sent, c.stored)
	if err == nil && (request.DryRun == nil || !*request.DryRun) {
		err = s.Write(ctx, c.drafts...)
	}
	return answer{patch: patch, warnings: c.warnings}, err
}

// answered turns a verdict into an answer; err is why there is none.
func answered(v admit.Verdict, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	if !v.Allowed() {
		return answer{warnings: v.Warnings}, &resolve.Refusal{Errors: v.Errors}
	}
	return answer{warnings: v.Warnings}, nil
}
