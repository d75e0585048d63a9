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
	v1 "kubevirt.io/api/core/v1"
)

// before returns the stored VM as it was judged when it was written: by its pins. Nil if that cannot be said, so that nothing is forgiven. What was
// not determined then is none of its past: a VM that names an instancetype before that exists is judged when the controller pins it.
func (r Reviewer) before(ctx context.Context, reviewed *VM) *VM {
	old := reviewed.old
	if old.Spec.Template == nil {
		return nil
	}
	resolver := r.resolver(reviewed.configuration)
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
	was := VM{given: old, Resolved: resolved, Meant: resolve.Effective(old, resolved.Pins)}
	if was.Input, err = resolver.Input(ctx, old.Namespace, resolved, reviewed.configuration); err != nil {
		return nil
	}
	was.Explicit, _ = admit.VM(was.Meant, nil, was.Input)
	return &was
}

// guest is the VMI that boots; nil while that is not known.
func (v *VM) guest() *v1.VirtualMachineInstance {
	if v.Unknown() {
		return nil
	}
	return v.Explicit
}

// sameGuest reports whether an update changes nothing of what boots.
func sameGuest(before, now *VM) bool {
	was, is := before.guest(), now.guest()
	if was == nil || is == nil {
		was, is = before.Explicit, now.Explicit // sparse: the references decide
		if is == nil || !equality.Semantic.DeepEqual(before.given.Spec.Instancetype, now.given.Spec.Instancetype) ||
			!equality.Semantic.DeepEqual(before.given.Spec.Preference, now.given.Spec.Preference) || before.Unknown() != now.Unknown() {
			return false
		}
	}
	return equality.Semantic.DeepEqual(was.Spec, is.Spec) && maps.Equal(was.Labels, is.Labels) && maps.Equal(written(was), written(is))
}

// written returns the annotations of a VMI without those in which Kiln records what it is made from: what they mean is in the spec.
func written(vmi *v1.VirtualMachineInstance) map[string]string {
	annotations := maps.Clone(vmi.Annotations)
	for _, key := range []string{
		v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationArchitecture, v1alpha1.AnnotationGeneration,
	} {
		delete(annotations, key)
	}
	return annotations
}

// Pinned reviews an update that leaves spec and pins of a VM as they are. Presets and profiles that are pinned for the first time are judged by the
// policies alone: users of the namespace write presets and profiles, after the VM as well. Rules that came since then keep nobody from writing.
func (r Reviewer) Pinned(ctx context.Context, vm, old *v1.VirtualMachine, asker Asker) (admit.Verdict, error) {
	verdict := admit.Verdict{Errors: validate.HardwareChange(vm, old)}
	now, was := pin.Read(vm), pin.Read(old)
	if (was.Presets != nil || len(now.Presets) == 0) && (was.PinsProfiles() || len(now.Profiles) == 0) {
		return verdict, nil
	}
	if policies, err := r.policies(); err != nil || len(policies) == 0 {
		return verdict, err
	}
	reviewed, err := r.vm(ctx, vm, old, asker)
	reviewed.Verdict = verdict
	if err == nil {
		err = r.judgeVM(ctx, &reviewed, asker)
	}
	return reviewed.Verdict, err
}
