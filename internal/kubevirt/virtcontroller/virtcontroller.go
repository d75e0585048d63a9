// Package virtcontroller adds to the VMs, VMIs and pods of KubeVirt's virt-controller what Kiln's controllers would have given them: pins, identity, recorded
// hardware, and the container of the hook. Admission calls it.
package virtcontroller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Completer implements review.KubeVirt. Virt-controller creates the VMI of a VM with only the annotations of the template. Completer adds the pins, the
// identity, and the rest that a VMI takes from its VM. It adds them only to VMIs of KubeVirt's accounts. If anybody else
// writes an owner reference to a VM, nothing is added: rule vmi/owner refuses the VMI. KubeVirt: SetupVMIFromVM of pkg/virt-controller/watch/vm, v1.9.
type Completer struct {
	// Hook puts recorded hardware back. Without an image, guests get at most the recorded PCI addresses of disks and interfaces.
	Hook Hook
}

// Inherit completes a VMI that an account of KubeVirt creates for a VM: it returns a copy with the values that the VMI takes from its VM, and the VM. It
// returns any other VMI unchanged, without a VM. It returns a *resolve.Outdated error if KubeVirt has expanded another revision than the revision that the VM
// is pinned to.
func (c Completer) Inherit(ctx context.Context, resolver resolve.Resolver, vmi *v1.VirtualMachineInstance, user string, limits config.Limits) (
	*v1.VirtualMachineInstance, *v1.VirtualMachine, error,
) {
	ref := resolve.OwnerRef(vmi)
	if ref == nil || !slices.Contains(limits.KubeVirt, user) {
		return vmi, nil, nil
	}
	vm, err := resolver.Owner(ctx, vmi, ref)
	if err == nil {
		err = resolver.CheckExpanded(ctx, vm)
	}
	if err != nil {
		return nil, nil, err
	}
	completed := *vmi
	if completed.Annotations = maps.Clone(vmi.Annotations); completed.Annotations == nil {
		completed.Annotations = map[string]string{}
	}
	// A tenant writes the template. Its values of these annotations must never replace the values of the VM.
	for _, key := range []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationArchitecture} {
		delete(completed.Annotations, key)
	}
	admit.Inherit(&completed, vm)
	// The controller will write the same identity.
	completed.Annotations[v1alpha1.AnnotationIdentity] = cmp.Or(completed.Annotations[v1alpha1.AnnotationIdentity], string(vm.UID))
	return &completed, vm, c.addRecord(ctx, resolver, &completed, vm, limits.Gates)
}

// CompletePins pins a VMI that KubeVirt creates for a VM to the revisions to which Kiln's controller will pin the VM. It reports whether the presets of the VM
// were not pinned yet. It does nothing if owner is nil.
func (Completer) CompletePins(
	ctx context.Context, resolver resolve.Resolver, owner *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, resolved *resolve.Resolution,
) (unpinned bool) {
	if owner == nil {
		return false
	}
	pins := pin.Read(vmi)
	resolved.Pins = pins // also for a reference to a volume that recommends nothing
	unpinned = resolver.CompleteVMI(ctx, owner, resolved)
	if !resolved.Pins.Equal(pins) {
		pin.Write(vmi, resolved.Pins)
	}
	return unpinned
}

// CheckExpansion returns a *resolve.Outdated error if a VMI differs from the instancetype that its VM is pinned to: KubeVirt read the VM before the pin was
// written. KubeVirt then creates the VMI again. errs are the errors of making the VMI explicit. Without a VM there is no error.
func (Completer) CheckExpansion(owner *v1.VirtualMachine, errs field.ErrorList) error {
	differs := slices.IndexFunc(errs, func(err *field.Error) bool { return err.Origin == "vmi/instancetype-difference" })
	if owner == nil || differs < 0 {
		return nil
	}
	return resolve.NewOutdated("KubeVirt has expanded another revision of the instancetype than VirtualMachine '%s' is pinned to: %v",
		owner.Name, errs[differs])
}

// PlaceDevices gives an explicit VMI the recorded CPU and PCI addresses. If the VMI asks for Kiln's hook, the hook restores the addresses, and the fields of
// the CPU only select nodes. Without a VM it does nothing. A record that is wrong is a warning and never a reason to refuse the VMI. It returns an error if the
// record cannot be read: KubeVirt tries again.
func (Completer) PlaceDevices(
	ctx context.Context, resolver resolve.Resolver, owner *v1.VirtualMachine, explicit *v1.VirtualMachineInstance,
) (warnings []string, err error) {
	if owner == nil {
		return nil, nil
	}
	defer nameRecorded(explicit, owner)
	if text, hooked := explicit.Annotations[v1alpha1.AnnotationFrontend]; hooked { // addRecord has read the record and written it
		var frozen record.Record
		err := json.Unmarshal([]byte(text), &frozen)
		record.PinCPU(explicit, frozen.CPU, true)
		return nil, err
	}
	if explicit.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		return nil, nil
	}
	hardware, err := resolver.Hardware(ctx, owner)
	switch {
	case err != nil && hardware != nil: // it was read, and is wrong
		return []string{fmt.Sprintf("GuestHardware '%s' is not used: %v", owner.Name, err)}, nil
	case err != nil || hardware == nil:
		return nil, err
	}
	KeepAddresses(explicit, hardware)
	record.PinCPU(explicit, hardware.CPU, false)
	return nil, nil
}
