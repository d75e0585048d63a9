package review

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// KubeVirt's virt-controller makes the VMI of a VM with the annotations of the template alone. Admission adds what Kiln's controller would have given it: the
// pins, the identity, and the rest that a VMI takes from its VM. It does so for KubeVirt's accounts alone. From anybody else an owner reference to a VM gives
// nothing: rule vmi/owner refuses it. KubeVirt: SetupVMIFromVM of pkg/virt-controller/watch/vm, v1.9.

// inherited returns a VMI with what it takes from its VM, and the VM, if one of KubeVirt's accounts makes it for a VM; any other VMI as it is. It returns a
// *resolve.Outdated error if KubeVirt has expanded something else than the VM is pinned to.
func (r Reviewer) inherited(ctx context.Context, vmi *v1.VirtualMachineInstance, asker Asker, limits config.Limits) (
	*v1.VirtualMachineInstance, *v1.VirtualMachine, error,
) {
	owner := resolve.OwnerRef(vmi)
	if owner == nil || !slices.Contains(limits.KubeVirt, asker.Name) {
		return vmi, nil, nil
	}
	vm, err := r.Resolver.Owner(ctx, vmi, owner)
	if err == nil {
		err = r.Resolver.Expanded(ctx, vm)
	}
	if err != nil {
		return nil, nil, err
	}
	made := *vmi
	if made.Annotations = maps.Clone(vmi.Annotations); made.Annotations == nil {
		made.Annotations = map[string]string{}
	}
	// A tenant writes the template. Its values for these keys are never those of the VM.
	for _, key := range []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationArchitecture} {
		delete(made.Annotations, key)
	}
	admit.Inherit(&made, vm)
	made.Annotations[v1alpha1.AnnotationIdentity] = cmp.Or(made.Annotations[v1alpha1.AnnotationIdentity], string(vm.UID)) // as the controller will write it
	return &made, vm, r.hooked(ctx, &made, vm, limits.Gates)
}

// completePins pins a VMI, which must not be shared, to what the controller is about to pin its VM to.
func completePins(ctx context.Context, resolver resolve.Resolver, owner *v1.VirtualMachine, reviewed *VMI) {
	pins := pin.Read(reviewed.given)
	reviewed.Resolved.Pins = pins // with what a volume recommends nothing for
	reviewed.unjudged = resolver.CompleteVMI(ctx, owner, &reviewed.Resolved)
	if !reviewed.Resolved.Pins.Equal(pins) {
		pin.Write(reviewed.given, reviewed.Resolved.Pins)
	}
}

// stale returns a *resolve.Outdated error for a VMI that KubeVirt has made for a VM with other values than its instancetype has: KubeVirt read the VM before
// the pin was written. KubeVirt makes the VMI again.
func stale(vmi *v1.VirtualMachineInstance, asker Asker, limits config.Limits, errs field.ErrorList) error {
	first := slices.IndexFunc(errs, func(err *field.Error) bool { return err.Origin == "vmi/instancetype-difference" })
	if first < 0 || resolve.OwnerRef(vmi) == nil || !slices.Contains(limits.KubeVirt, asker.Name) {
		return nil
	}
	return resolve.NewOutdated("KubeVirt has expanded another revision of the instancetype than VirtualMachine '%s' is pinned to: %v",
		vmi.Name, errs[first])
}

// ofVM reports whether a controller creates a VMI for a VM whose guest has been judged. The account counts, and not the owner reference alone, which a user
// may write: rule vmi/owner refuses that, and nothing here relies on it. KubeVirt starts VMs that Kiln's controller has not pinned to presets and profiles
// yet: nobody has judged what these make of the VM. Where admission pins the VMI to them, it judges at once.
func ofVM(vmi *v1.VirtualMachineInstance, in admit.Input) bool {
	owner := metav1.GetControllerOf(vmi)
	if owner == nil || owner.Kind != v1.VirtualMachineGroupVersionKind.Kind || !slices.Contains(in.Cluster.Limits.Controllers, in.User) {
		return false
	}
	return !slices.Contains(in.Cluster.Limits.KubeVirt, in.User) || pin.Read(vmi).Presets != nil
}
