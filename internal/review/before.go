package review

import (
	"context"
	"maps"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/profile"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// reviewStoredVM returns the stored VM as it was judged when it was written: by its pins. It returns nil if that is not known, so that nothing is forgiven. For
// example, a VM that names an instancetype before the instancetype exists is judged when the controller pins it.
func (r Reviewer) reviewStoredVM(ctx context.Context, reviewed *VM) *VM {
	old := reviewed.old
	if old.Spec.Template == nil {
		return nil
	}
	resolver := r.resolverFor(reviewed.configuration)
	resolver.Rights = resolve.RecordedRights(old)
	resolved, err := resolver.VM(ctx, old, old)
	if err != nil || len(resolved.Current) > 0 {
		return nil
	}
	if now := reviewed.Resolved.Pins; resolved.Presets == nil && now.Presets != nil {
		resolved.Presets = []v1.VirtualMachineInstancePreset{} // pinned by this update: the owner of a namespace may have written them since
	}
	if resolved.Profiles == nil && reviewed.Resolved.Pins.PinsProfiles() {
		resolved.Profiles = []*profile.Profile{}
	}
	was := VM{given: old, Resolved: resolved, Meant: resolve.EffectiveVM(old, resolved.Pins)}
	if was.Input, err = resolver.Input(ctx, old.Namespace, resolved, reviewed.configuration); err != nil {
		return nil
	}
	was.Explicit, _ = admit.VM(was.Meant, nil, was.Input)
	return &was
}

// knownGuest returns the VMI that boots; nil while it is not known.
func (v *VM) knownGuest() *v1.VirtualMachineInstance {
	if v.Unknown() {
		return nil
	}
	return v.Explicit
}

// keepsGuest reports whether an update does not change what boots.
func keepsGuest(before, now *VM) bool {
	was, is := before.knownGuest(), now.knownGuest()
	if was == nil || is == nil {
		was, is = before.Explicit, now.Explicit // sparse: the references decide
		if is == nil || !equality.Semantic.DeepEqual(before.given.Spec.Instancetype, now.given.Spec.Instancetype) ||
			!equality.Semantic.DeepEqual(before.given.Spec.Preference, now.given.Spec.Preference) || before.Unknown() != now.Unknown() {
			return false
		}
	}
	return equality.Semantic.DeepEqual(was.Spec, is.Spec) && maps.Equal(was.Labels, is.Labels) &&
		maps.Equal(writtenAnnotations(was), writtenAnnotations(is))
}

// writtenAnnotations returns the annotations of a VMI without the annotations that name the sources of its spec: only the spec decides what boots.
func writtenAnnotations(vmi *v1.VirtualMachineInstance) map[string]string {
	annotations := maps.Clone(vmi.Annotations)
	for _, key := range []string{
		v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationArchitecture, v1alpha1.AnnotationGeneration,
	} {
		delete(annotations, key)
	}
	return annotations
}

// ReviewVMMetadata reviews an update that leaves spec and pins of a VM as they are. Kiln's rules do not judge it, because rules that came later must not
// prevent such an update. The policies judge it if its metadata changed, because their expressions read labels and annotations. They also judge it if
// presets and profiles are pinned for the first time, because users of the namespace may have written those after the VM.
func (r Reviewer) ReviewVMMetadata(ctx context.Context, vm, old *v1.VirtualMachine, asker Asker) (admit.Verdict, error) {
	verdict := admit.Verdict{Errors: validate.HardwareChange(vm, old)}
	now, was := pin.Read(vm), pin.Read(old)
	first := was.Presets == nil && len(now.Presets) > 0 || !was.PinsProfiles() && len(now.Profiles) > 0
	if !first && sameMetadata(vm, old) {
		return verdict, nil
	}
	if policies, err := r.CurrentPolicies(); err != nil || len(policies) == 0 {
		return verdict, err
	}
	reviewed, err := r.runVMStage1(ctx, r.newVMReview(vm, old, asker), asker)
	reviewed.Verdict = verdict
	if err == nil {
		err = r.judgeVMByPolicies(ctx, &reviewed, asker)
	}
	return reviewed.Verdict, err
}

// sameMetadata reports whether an update leaves the metadata of its object as it was. It ignores finalizers, as the match conditions of the webhook do, because
// controllers add and remove them also while the webhook is down.
func sameMetadata(now, old metav1.Object) bool {
	return maps.Equal(now.GetLabels(), old.GetLabels()) && maps.Equal(now.GetAnnotations(), old.GetAnnotations()) &&
		equality.Semantic.DeepEqual(now.GetOwnerReferences(), old.GetOwnerReferences())
}
