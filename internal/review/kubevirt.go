package review

import (
	"context"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// KubeVirt adds to the objects of KubeVirt's controllers what Kiln's controllers would have given them. virtcontroller.Completer implements it. user is the
// account that sends the object. owner is the VM that Inherit returned; without one the methods do nothing.
type KubeVirt interface {
	// KeepTemplate returns the VM of an update with what KubeVirt wrote into the stored template and the update leaves out. It does not change the given VM.
	KeepTemplate(vm, old *v1.VirtualMachine, user string, limits config.Limits) *v1.VirtualMachine
	// Inherit returns a copy of a VMI that KubeVirt creates for a VM, with the values that it takes from the VM, and the VM. It returns any other VMI as it is,
	// and no VM.
	Inherit(ctx context.Context, resolver resolve.Resolver, vmi *v1.VirtualMachineInstance, user string, limits config.Limits) (
		completed *v1.VirtualMachineInstance, owner *v1.VirtualMachine, err error)
	// CompletePins pins a VMI to the revisions to which the controller is about to pin its VM. It reports whether the presets of the VM were not pinned yet.
	CompletePins(ctx context.Context, resolver resolve.Resolver, owner *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, resolved *resolve.Resolution) bool
	// CheckExpansion returns an error if errs, of making a VMI explicit, mean that KubeVirt expanded another instancetype than the VM is pinned to.
	CheckExpansion(owner *v1.VirtualMachine, errs field.ErrorList) error
	// PlaceDevices gives an explicit VMI the recorded addresses of its devices.
	PlaceDevices(ctx context.Context, resolver resolve.Resolver, owner *v1.VirtualMachine, explicit *v1.VirtualMachineInstance) (warnings []string, err error)
	// ForgetAddresses returns the VMI of an update without the addresses of PlaceDevices that its guest needs no more. It does not change the given VMI.
	ForgetAddresses(vmi *v1.VirtualMachineInstance, user string, limits config.Limits) *v1.VirtualMachineInstance
}

// noKubeVirt is KubeVirt for a Reviewer without one.
type noKubeVirt struct{}

func (noKubeVirt) KeepTemplate(vm, _ *v1.VirtualMachine, _ string, _ config.Limits) *v1.VirtualMachine {
	return vm
}

func (noKubeVirt) Inherit(_ context.Context, _ resolve.Resolver, vmi *v1.VirtualMachineInstance, _ string, _ config.Limits) (
	*v1.VirtualMachineInstance, *v1.VirtualMachine, error,
) {
	return vmi, nil, nil
}

func (noKubeVirt) CompletePins(context.Context, resolve.Resolver, *v1.VirtualMachine, *v1.VirtualMachineInstance, *resolve.Resolution) bool {
	return false
}

func (noKubeVirt) CheckExpansion(*v1.VirtualMachine, field.ErrorList) error { return nil }

func (noKubeVirt) PlaceDevices(context.Context, resolve.Resolver, *v1.VirtualMachine, *v1.VirtualMachineInstance) ([]string, error) {
	return nil, nil
}

func (noKubeVirt) ForgetAddresses(vmi *v1.VirtualMachineInstance, _ string, _ config.Limits) *v1.VirtualMachineInstance {
	return vmi
}

// ForgetAddresses returns the VMI of an update as the mutating webhook stores it.
func (r Reviewer) ForgetAddresses(vmi *v1.VirtualMachineInstance, user string) *v1.VirtualMachineInstance {
	return r.kubeVirtOrNone().ForgetAddresses(vmi, user, r.Configuration().Limits)
}

// kubeVirtOrNone returns the KubeVirt of the Reviewer.
func (r Reviewer) kubeVirtOrNone() KubeVirt {
	if r.KubeVirt == nil {
		return noKubeVirt{}
	}
	return r.KubeVirt
}
