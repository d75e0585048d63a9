package cli

import (
	"context"
	"encoding/json"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stageOne reviews objects as the webhook does.
type stageOne struct {
	reviewer review.Reviewer
	// reader has the objects that the named ones refer to.
	reader client.Reader
	// old is the VM that is updated, if it has the same name.
	old *v1.VirtualMachine
}

// judges are one function a kind. Each gives the sparse VMI of a guest, nil if there is none.
var judges = map[schema.GroupKind]func(stageOne, context.Context, *guest, []byte) (*v1.VirtualMachineInstance, error){
	{Group: v1.GroupVersion.Group, Kind: "VirtualMachine"}:                                   stageOne.vm,
	{Group: v1.GroupVersion.Group, Kind: "VirtualMachineInstance"}:                           stageOne.vmi,
	{Group: v1.GroupVersion.Group, Kind: "VirtualMachineInstancePreset"}:                     stageOne.preset,
	{Group: v1beta1.SchemeGroupVersion.Group, Kind: instancetype.Kinds.Namespaced}:           stageOne.size,
	{Group: v1beta1.SchemeGroupVersion.Group, Kind: instancetype.Kinds.Cluster}:              stageOne.size,
	{Group: v1beta1.SchemeGroupVersion.Group, Kind: instancetype.PreferenceKinds.Namespaced}: stageOne.preference,
	{Group: v1beta1.SchemeGroupVersion.Group, Kind: instancetype.PreferenceKinds.Cluster}:    stageOne.preference,
	{Group: v1alpha1.GroupVersion.Group, Kind: "HostProfile"}:                                stageOne.profile,
	{Group: v1alpha1.GroupVersion.Group, Kind: "GuestHardware"}:                              stageOne.hardware,
}

// vm judges a VM and leaves the guest that it would boot. The sparse VMI is what its controller would create.
func (s stageOne) vm(ctx context.Context, g *guest, raw []byte) (*v1.VirtualMachineInstance, error) {
	vm := &v1.VirtualMachine{}
	if err := json.Unmarshal(raw, vm); err != nil {
		return nil, err
	}
	old := s.old
	if old != nil && (old.Name != vm.Name || old.Namespace != vm.Namespace) {
		old = nil
	}
	reviewed, err := s.reviewer.VM(ctx, vm, old, review.Asker{})
	if err != nil {
		return nil, err
	}
	g.vm, g.missing, g.unknown = vm, reviewed.Resolved.Missing, reviewed.Unknown()
	g.explicit, g.verdict, g.input = reviewed.Explicit, reviewed.Verdict, reviewed.Input
	if vm.Spec.Template == nil {
		return nil, nil
	}
	g.explain = func() (admit.Explanation, error) { return reviewed.Explain(), nil }
	g.admit = func() ([]byte, error) { return admitted(vm, reviewed, raw) }
	return admit.Instance(reviewed.Meant), g.remember(ctx, s.reader)
}

// vmi makes a VMI explicit and judges it.
func (s stageOne) vmi(ctx context.Context, g *guest, raw []byte) (*v1.VirtualMachineInstance, error) {
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(raw, vmi); err != nil {
		return nil, err
	}
	var asker review.Asker
	if g.stored {
		// What only controllers may write, such as the owner, was written by them: the cluster has admitted it.
		asker.Name = s.reviewer.Configuration().Limits.Controllers[0]
	}
	reviewed, err := s.reviewer.VMI(ctx, vmi, asker)
	if err != nil {
		return nil, err
	}
	g.explicit, g.verdict, g.input = reviewed.Explicit, reviewed.Verdict, reviewed.Input
	g.explain = func() (admit.Explanation, error) {
		vm, err := s.owner(ctx, vmi)
		if err != nil {
			return admit.Explanation{}, err
		}
		return reviewed.Explain(vm, g.frozen), nil
	}
	return vmi, g.remember(ctx, s.reader)
}

// owner is the VM that made a VMI; nil if none did, or it is gone or not to be read.
func (s stageOne) owner(ctx context.Context, vmi *v1.VirtualMachineInstance) (*v1.VirtualMachine, error) {
	by := metav1.GetControllerOf(vmi)
	if by == nil || by.Kind != v1.VirtualMachineGroupVersionKind.Kind {
		return nil, nil
	}
	vm := &v1.VirtualMachine{}
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: vmi.Namespace, Name: by.Name}, vm)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && (vm.UID != by.UID || vm.Spec.Template == nil) {
		return nil, nil
	}
	return vm, err
}

func (s stageOne) preset(_ context.Context, g *guest, raw []byte) (*v1.VirtualMachineInstance, error) {
	var object v1.VirtualMachineInstancePreset
	err := json.Unmarshal(raw, &object)
	g.verdict = admit.Verdict{Errors: validate.Preset(&object.Spec, field.NewPath("spec")), Warnings: validate.PresetWarnings()}
	return nil, err
}

// size and preference: both scopes have one schema.
func (s stageOne) size(_ context.Context, g *guest, raw []byte) (*v1.VirtualMachineInstance, error) {
	var object v1beta1.VirtualMachineInstancetype
	err := json.Unmarshal(raw, &object)
	g.verdict.Errors = validate.Instancetype(&object.Spec, field.NewPath("spec"))
	return nil, err
}

func (s stageOne) preference(_ context.Context, g *guest, raw []byte) (*v1.VirtualMachineInstance, error) {
	var object v1beta1.VirtualMachinePreference
	err := json.Unmarshal(raw, &object)
	g.verdict = admit.Verdict{Errors: validate.Preference(&object.Spec, field.NewPath("spec")), Warnings: validate.PreferenceWarnings(&object.Spec)}
	return nil, err
}

// profile is judged by itself: hosts leave out what cannot be read.
func (s stageOne) profile(_ context.Context, g *guest, raw []byte) (*v1.VirtualMachineInstance, error) {
	var object v1alpha1.HostProfile
	err := json.Unmarshal(raw, &object)
	g.verdict.Errors = backend.Mistakes(&object.Spec, field.NewPath("spec"))
	return nil, err
}

func (s stageOne) hardware(_ context.Context, g *guest, raw []byte) (*v1.VirtualMachineInstance, error) {
	var object v1alpha1.GuestHardware
	err := json.Unmarshal(raw, &object)
	g.verdict.Errors = validate.GuestHardware(&object.Spec, field.NewPath("spec"))
	return nil, err
}
