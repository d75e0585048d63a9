// Package admission contains the HTTP webhooks: it decodes the object of an AdmissionReview, has package internal/review judge it, and answers with a
// refusal, or with warnings and a patch. The patch pins a VM to revisions, and makes a VMI explicit. The rules about VMs are in the engine.
package admission

import (
	"context"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/kilnvm/kiln/pkg/patch"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Server contains what the handlers need besides the request.
type Server struct {
	Reviewer review.Reviewer
	// LauncherHook is the container that pods of KubeVirt's virt-launcher get. It is the hook of Reviewer.KubeVirt.
	LauncherHook virtcontroller.Hook
	// MayRead reports what the caller of a request may read.
	MayRead MayRead
	// ParamSchema returns the schema of the paramKind of a GuestPolicy, or nil; nil if params have no types.
	ParamSchema func(v1alpha1.GuestPolicyParamKind) (*spec.Schema, error)
	// Write stores the ControllerRevisions that a VM or VMI is pinned to, before the object exists: otherwise an instancetype could change between the answer
	// and the first start. It is never called in a dry run.
	Write func(context.Context, ...revision.Draft) error
	// Refusals is the verbosity of the log entries of refused requests; 0 is the level info.
	Refusals int
	// Enforcement is enforcement.Enforce or enforcement.Warn; empty for Enforce. Namespaces with label kilnvm.io/admission have their own value. Warn needs
	// KubeVirt, which judges the objects, too.
	Enforcement string
	// Carriers are the kinds of the administrator that have templates of VMs or VMIs, besides carrier.Builtin.
	Carriers []carrier.Kind

	// capacity bounds the reviews in progress of all hooks.
	capacity *semaphore.Weighted
	// counting bounds the counts of VMs in progress.
	counting *semaphore.Weighted
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
	ValidatePolicy       = "/validate/guestpolicies"
	MutateException      = "/mutate/guestpolicyexceptions"
	ValidateException    = "/validate/guestpolicyexceptions"
	ValidateProfile      = "/validate/guestprofiles"
	MutateRestore        = "/mutate/virtualmachinerestores"
	MutateClone          = "/mutate/virtualmachineclones"
	MutatePod            = "/mutate/pods"
	ValidateSnapshot     = "/validate/virtualmachinesnapshots"
	ValidateRestore      = "/validate/virtualmachinerestores"
	ValidateClone        = "/validate/virtualmachineclones"
	ValidateCarrier      = "/validate/carriers"
	ValidateDeletion     = "/validate/deletions"
)

// Hooks returns all webhooks by path. They share the capacity for reviews in progress, because they share the memory of the process.
func (s *Server) Hooks() map[string]Hook {
	hooks := map[string]Hook{}
	if s.capacity == nil {
		s.capacity = newCapacity()
	}
	if s.counting == nil {
		s.counting = newCounting()
	}
	yields := func() bool { return s.Reviewer.Configuration().Limits.KubeVirtGuests }
	for path, handle := range map[string]handler{
		MutateVM:             skipUnreadable(s.mutateVM),
		MutateVMI:            skipUnreadable(s.mutateVMI),
		ValidateVM:           s.validateVM,
		ValidateVMI:          s.validateVMI,
		ValidateStatus:       s.validateStatus,
		ValidatePreset:       s.withinQuota(validatePreset),
		ValidateInstancetype: s.withinQuota(validateInstancetype),
		ValidatePreference:   s.withinQuota(validatePreference),
		ValidateHardware:     validateHardware,
		ValidatePolicy:       s.validatePolicy,
		MutateException:      skipUnreadable(s.mutateException),
		ValidateException:    s.withinQuota(s.validateException),
		ValidateProfile:      s.withinQuota(s.validateProfile),
		MutateRestore:        skipUnreadable(s.mutateRestore),
		MutateClone:          skipUnreadable(s.mutateClone),
		MutatePod:            skipUnreadable(s.mutatePod),
		ValidateSnapshot:     s.withinCount(s.validateSnapshot),
		ValidateRestore:      s.withinCount(s.validateRestore),
		ValidateClone:        s.withinCount(s.validateClone),
		ValidateCarrier:      s.validateCarrier,
		ValidateDeletion:     deletions{s}.validateDeletion,
	} {
		hooks[path] = Hook{handle: handle, capacity: s.capacity, path: path, refusals: s.Refusals, yields: yields}
	}
	for _, path := range warnable {
		hook := hooks[path]
		hook.warns = s.warnsIn
		hooks[path] = hook
	}
	return hooks
}

// hookPaths returns the paths of all hooks.
func hookPaths() []string { return slices.Sorted(maps.Keys((&Server{}).Hooks())) }

// answer is what a handler returns for a request that it allows, and with an error for a request that is admitted only with warnings. The error of a handler is
// the user's mistake if it is a *resolve.Refusal. Any other error is a fault of Kiln or of the cluster.
type answer struct {
	// patch is a JSON patch (RFC 6902), nil if nothing changes.
	patch    []byte
	warnings []string
	// audit are annotations for the audit event, by key without the name of the webhook. A refusal may have them too.
	audit map[string]string
}

// handler decides one request.
type handler func(context.Context, *admissionv1.AdmissionRequest) (answer, error)

// change is an object as it was sent and as it is to be stored, with the revisions that have to exist before it.
type change struct {
	sent, stored any
	drafts       []revision.Draft
	warnings     []string
}

// answerPatch answers with the change as a patch, after its revisions have been written.
func (s *Server) answerPatch(ctx context.Context, request *admissionv1.AdmissionRequest, c change) (answer, error) {
	patch, err := patch.Write(request.Object.Raw, c.sent, c.stored)
	if err == nil {
		err = s.judgeRevisions(ctx, c.drafts)
	}
	if err == nil && (request.DryRun == nil || !*request.DryRun) {
		err = s.Write(ctx, c.drafts...)
	}
	if err != nil { // without its revisions, the change would name some that do not exist
		return answer{}, err
	}
	return answer{patch: patch, warnings: c.warnings}, nil
}

// answerVerdict turns a verdict into an answer; err is why there is no verdict.
func answerVerdict(v admit.Verdict, err error) (answer, error) {
	given := answer{warnings: v.Warnings, audit: v.Audit}
	switch {
	case err != nil:
		return answer{}, err
	case !v.Allowed():
		return given, &resolve.Refusal{Errors: v.Errors}
	}
	return given, nil
}
