package workbench

import (
	"context"
	"encoding/json"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
)

// stageOne reviews the objects of each kind as the webhook does. A test compares it with the webhook's handlers for every case of the
// corpus.
type stageOne struct {
	bench    *Bench
	reviewer review.Reviewer
	// old is the stored VM, or nil. A VM with its name is reviewed as its update.
	old *v1.VirtualMachine
	// carriers are the kinds of Bench.Carriers. oldCarrier is a stored object with templates, or nil: the objects are reviewed as its update.
	carriers   []carrier.Kind
	oldCarrier *unstructured.Unstructured
}

// judges has a function for each kind, except for kinds that carry VMs or VMIs: see judgeOf.
var judges = map[schema.GroupKind]judgeFunc{
	{Group: v1.GroupVersion.Group, Kind: "VirtualMachine"}:                                   stageOne.judgeVM,
	{Group: v1.GroupVersion.Group, Kind: "VirtualMachineInstance"}:                           stageOne.judgeVMI,
	{Group: v1.GroupVersion.Group, Kind: "VirtualMachineInstancePreset"}:                     stageOne.judgePreset,
	{Group: v1beta1.SchemeGroupVersion.Group, Kind: instancetype.Kinds.Namespaced}:           stageOne.judgeInstancetype,
	{Group: v1beta1.SchemeGroupVersion.Group, Kind: instancetype.Kinds.Cluster}:              stageOne.judgeInstancetype,
	{Group: v1beta1.SchemeGroupVersion.Group, Kind: instancetype.PreferenceKinds.Namespaced}: stageOne.judgePreference,
	{Group: v1beta1.SchemeGroupVersion.Group, Kind: instancetype.PreferenceKinds.Cluster}:    stageOne.judgePreference,
	{Group: v1alpha1.GroupVersion.Group, Kind: "HostProfile"}:                                stageOne.judgeHostProfile,
	{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.KindFrontendProfile}:                 stageOne.judgeFrontendProfile,
	{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.KindGuestPolicy}:                     stageOne.judgePolicy,
	{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.KindGuestPolicyException}:            stageOne.judgeException,
	{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.KindGuestProfile}:                    stageOne.judgeGuestProfile,
	{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.KindClusterGuestProfile}:             stageOne.judgeGuestProfile,
	{Group: v1alpha1.GroupVersion.Group, Kind: "GuestHardware"}:                              stageOne.judgeHardware,
	{Group: v1alpha1.GroupVersion.Group, Kind: "GuestPod"}:                                   stageOne.acceptBySchema,
	{Group: snapshot.SchemeGroupVersion.Group, Kind: "VirtualMachineSnapshot"}:               stageOne.judgeSnapshot,
	{Group: snapshot.SchemeGroupVersion.Group, Kind: "VirtualMachineSnapshotContent"}:        stageOne.acceptBySchema,
	{Group: snapshot.SchemeGroupVersion.Group, Kind: "VirtualMachineRestore"}:                stageOne.judgeRestore,
	{Group: clone.SchemeGroupVersion.Group, Kind: "VirtualMachineClone"}:                     stageOne.judgeClone,
}

// judgeVM judges a VM and the guest that it would boot. The sparse VMI is what its controller would create.
func (s stageOne) judgeVM(ctx context.Context, r *Reviewed, raw []byte) error {
	vm := &v1.VirtualMachine{}
	embedded := validate.EmbeddedMetadata(raw)
	if err := json.Unmarshal(raw, vm); err != nil {
		r.Verdict.Errors = embedded
		return err
	}
	old := s.old
	if old != nil && (old.Name != vm.Name || old.Namespace != vm.Namespace) {
		old = nil
	}
	if s.bench.updates {
		old = vm.DeepCopy()
	}
	reviewer := s.reviewer
	if old != nil && reviewer.Configuration().Limits.KubeVirtGuests {
		keepTemplate(vm, old)
	}
	reviewer.Stored = r.Stored
	reviewed, err := reviewer.ReviewVM(ctx, vm, old, s.bench.requestUser())
	if err != nil {
		return err
	}
	r.missing, r.Unknown, r.Verdict, r.Policies = reviewed.Resolved.Missing, reviewed.Unknown(), reviewed.Verdict, reviewed.Policies
	r.Inferred, r.sources, r.LostPins = reviewed.Resolved.Inferred, reviewed.Resolved.Read, reviewed.Resolved.LostPins
	r.Verdict.Errors = append(embedded, r.Verdict.Errors...)
	if r.Verdict.Allowed() {
		r.Verdict.Warnings = append(r.Verdict.Warnings, validate.WrittenVMWarnings(raw, vm, old, reviewer.Configuration().Limits)...)
	}
	if vm.Spec.Template == nil {
		return nil
	}
	r.Guest = &Guest{VM: vm, Explicit: reviewed.Explicit, Sparse: admit.Instance(reviewed.Meant), Input: reviewed.Input, vm: &reviewed}
	return r.readRecord(ctx)
}

// judgeVMI makes a VMI explicit and judges it.
func (s stageOne) judgeVMI(ctx context.Context, r *Reviewed, raw []byte) error {
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(raw, vmi); err != nil {
		return err
	}
	asker, reviewer := s.bench.requestUser(), s.reviewer
	if reviewer.Stored = r.Stored; r.Stored {
		// A stored VMI may have fields that only controllers may write, such as the owner, so it is judged as the request of a controller.
		asker.Name = s.reviewer.Configuration().Limits.Controllers[0]
	}
	reviewed, err := reviewer.ReviewVMI(ctx, vmi, asker)
	if err != nil {
		return err
	}
	r.Verdict, r.Policies = reviewed.Verdict, reviewed.Policies
	if r.Verdict.Allowed() {
		r.Verdict.Warnings = append(r.Verdict.Warnings, validate.CountWarnings(raw)...)
	}
	r.Guest = &Guest{Explicit: reviewed.Explicit, Sparse: vmi, Input: reviewed.Input, vmi: &reviewed}
	return r.readRecord(ctx)
}

// judgePreset judges only the preset itself. Conflicts between presets are found when a VMI is judged that they match.
func (s stageOne) judgePreset(_ context.Context, r *Reviewed, raw []byte) error {
	var object v1.VirtualMachineInstancePreset
	err := json.Unmarshal(raw, &object)
	r.Verdict = admit.Verdict{Errors: validate.Preset(&object.Spec, field.NewPath("spec")), Warnings: validate.PresetWarnings()}
	return err
}

// judgeInstancetype judges an instancetype, namespaced or cluster-wide: both kinds have one schema.
func (s stageOne) judgeInstancetype(_ context.Context, r *Reviewed, raw []byte) error {
	var object v1beta1.VirtualMachineInstancetype
	err := json.Unmarshal(raw, &object)
	r.Verdict.Errors = append(validate.Instancetype(&object.Spec, field.NewPath("spec")), instancetype.LifecycleMistakes(&object)...)
	r.Verdict.Warnings = validate.InstancetypeWarnings(&object.Spec)
	return err
}

// judgePreference judges a preference, namespaced or cluster-wide: both kinds have one schema. Whether an instancetype meets its requirements is judged with
// each VM that refers to both.
func (s stageOne) judgePreference(_ context.Context, r *Reviewed, raw []byte) error {
	var object v1beta1.VirtualMachinePreference
	err := json.Unmarshal(raw, &object)
	mistakes := append(validate.Preference(&object.Spec, field.NewPath("spec")), instancetype.LifecycleMistakes(&object)...)
	r.Verdict = admit.Verdict{Errors: mistakes, Warnings: validate.PreferenceWarnings(&object.Spec)}
	return err
}

// judgePolicy judges a GuestPolicy: it must compile.
func (s stageOne) judgePolicy(ctx context.Context, r *Reviewed, raw []byte) error {
	var object v1alpha1.GuestPolicy
	if err := json.Unmarshal(raw, &object); err != nil {
		return err
	}
	compiled, mistakes, err := compileAmong(ctx, r.Inputs, &object)
	if err == nil {
		r.Verdict.Errors, r.Verdict.Warnings = mistakes, compiled.Warnings()
	}
	return err
}

// judgeException judges a GuestPolicyException by the policies that it names. Who requests it is not known yet.
func (s stageOne) judgeException(_ context.Context, r *Reviewed, raw []byte) error {
	var object v1alpha1.GuestPolicyException
	if err := json.Unmarshal(raw, &object); err != nil {
		return err
	}
	policies, err := s.reviewer.Policies()
	if err == nil {
		r.Verdict.Errors, r.Verdict.Warnings = policy.ExceptionRequestMistakes(policies, &object, s.bench.now())
	}
	return err
}

// judgeHostProfile judges only the HostProfile itself. Conflicts between HostProfiles depend on the VMI and the node; the status of a HostProfile reports them.
func (s stageOne) judgeHostProfile(_ context.Context, r *Reviewed, raw []byte) error {
	var object v1alpha1.HostProfile
	err := json.Unmarshal(raw, &object)
	r.Verdict.Errors = backend.ValidateProfile(&object.Spec, field.NewPath("spec"))
	return err
}

// judgeFrontendProfile judges a FrontendProfile. It also judges the name, which is a version: an API server does it by a rule of the schema.
func (s stageOne) judgeFrontendProfile(_ context.Context, r *Reviewed, raw []byte) error {
	var object v1alpha1.FrontendProfile
	err := json.Unmarshal(raw, &object)
	r.Verdict.Errors = config.InvalidFrontend(&object.Spec, field.NewPath("spec"))
	if mistake := config.InvalidFrontendName(object.Name, field.NewPath("metadata", "name")); mistake != nil {
		r.Verdict.Errors = append(r.Verdict.Errors, mistake)
	}
	return err
}

// judgeGuestProfile judges a GuestProfile or ClusterGuestProfile with the profiles that it extends.
func (s stageOne) judgeGuestProfile(ctx context.Context, r *Reviewed, raw []byte) error {
	reviewed, err := s.reviewer.ReviewProfile(ctx, raw, s.bench.requestUser())
	r.missing, r.Verdict = reviewed.Missing, reviewed.Verdict
	return err
}

// judgeHardware judges the record in a GuestHardware, which may come from a backup or from 'capture'.
func (s stageOne) judgeHardware(_ context.Context, r *Reviewed, raw []byte) error {
	var object v1alpha1.GuestHardware
	err := json.Unmarshal(raw, &object)
	r.Verdict.Errors = validate.GuestHardware(&object.Spec, field.NewPath("spec"))
	return err
}

// acceptBySchema accepts the kinds that Kiln's controllers write: their schema is checked before.
func (s stageOne) acceptBySchema(context.Context, *Reviewed, []byte) error { return nil }

// reviewerFor returns the reviewer for an object.
func (s stageOne) reviewerFor(r *Reviewed) review.Reviewer {
	reviewer := s.reviewer
	reviewer.Stored = r.Stored
	return reviewer
}

// judgeSnapshot judges a snapshot, as the webhook does when it is created.
func (s stageOne) judgeSnapshot(ctx context.Context, r *Reviewed, raw []byte) error {
	var object snapshot.VirtualMachineSnapshot
	err := json.Unmarshal(raw, &object)
	if err == nil {
		r.Verdict = s.reviewerFor(r).ReviewSnapshot(ctx, &object, s.bench.requestUser())
	}
	return err
}

// judgeRestore judges a restore, as the webhook does when it is created.
func (s stageOne) judgeRestore(ctx context.Context, r *Reviewed, raw []byte) error {
	var object snapshot.VirtualMachineRestore
	err := json.Unmarshal(raw, &object)
	if err == nil {
		r.Verdict = s.reviewerFor(r).ReviewRestore(ctx, &object, s.bench.requestUser())
	}
	return err
}

// judgeClone judges a clone, as the webhook does when it is created.
func (s stageOne) judgeClone(ctx context.Context, r *Reviewed, raw []byte) error {
	var object clone.VirtualMachineClone
	err := json.Unmarshal(raw, &object)
	if err == nil {
		r.Verdict = s.reviewerFor(r).ReviewClone(ctx, &object, s.bench.requestUser())
	}
	return err
}
