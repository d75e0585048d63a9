package hardware

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writer writes the GuestHardware of VMs that restores write.
type Writer struct{ *operation.Cluster }

// WriteForNewVM writes the GuestHardware of a VM that the restore is going to create. It has no status, so that the controller of GuestHardware assigns it
// to the VM. The GuestHardware of an earlier VM of this name is replaced.
func (w Writer) WriteForNewVM(ctx context.Context, vm *v1.VirtualMachine, kept snapshot.Kept, restore *api.VirtualMachineRestore) error {
	hardware, err := ownership.ReadHardware(ctx, w.Live, client.ObjectKeyFromObject(vm))
	if err != nil {
		return err
	}
	spec := kept.GuestHardware(vm, restore)
	if hardware != nil && !ownership.Assigned(hardware) && equality.Semantic.DeepEqual(hardware.Spec, spec) {
		return nil
	}
	return w.replaceHardware(ctx, vm, hardware, spec, map[string]string{snapshot.Mark: snapshot.MarkOf(restore)})
}

// ApplyRevision gives a VM, which must be locked, the hardware of a ControllerRevision. If the name of the revision is empty, the next boot makes new hardware.
// written reports whether the VM had other hardware; mistakes are why the revision cannot be used.
func (w Writer) ApplyRevision(ctx context.Context, vm *v1.VirtualMachine, revision string) (written bool, mistakes field.ErrorList, err error) {
	kept := snapshot.Kept{VM: vm, Revision: revision}
	if mistakes, err := LoadRecord(ctx, w.Live, &kept); err != nil || len(mistakes) > 0 {
		return false, mistakes, err
	}
	hardware, err := ownership.ReadHardware(ctx, w.Live, client.ObjectKeyFromObject(vm))
	if err != nil {
		return false, nil, err
	}
	intoSameVM := &api.VirtualMachineRestore{}
	intoSameVM.Spec.Target.Name = vm.Name
	spec := kept.GuestHardware(vm, intoSameVM)
	switch {
	case hardware == nil && spec.Hardware == nil || hardware != nil && equality.Semantic.DeepEqual(hardware.Spec, spec):
		return false, nil, nil
	case ownership.GuestOf(vm).Ownership(hardware) == ownership.Own:
		return true, nil, w.Patch(ctx, hardware, func() { hardware.Spec = spec })
	}
	return true, nil, w.replaceHardware(ctx, vm, hardware, spec, nil)
}

// replaceHardware deletes the GuestHardware that exists, if any, and creates another one, unless the spec has no hardware: then the first boot creates it.
func (w Writer) replaceHardware(
	ctx context.Context, vm *v1.VirtualMachine, existing *v1alpha1.GuestHardware, spec v1alpha1.GuestHardwareSpec, annotations map[string]string,
) error {
	if existing != nil {
		if err := objects.DeleteUnchanged(ctx, w.Live, existing); err != nil {
			return err
		}
	}
	if spec.Hardware == nil {
		return nil
	}
	return w.Live.Create(ctx, &v1alpha1.GuestHardware{
		ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: vm.Name, Annotations: annotations}, Spec: spec})
}

// DeleteUnused deletes the GuestHardware that a restore has written for a VM which it is not going to create.
func (w Writer) DeleteUnused(ctx context.Context, restore *api.VirtualMachineRestore) error {
	hardware, err := ownership.ReadHardware(ctx, w.Live, types.NamespacedName{Namespace: restore.Namespace, Name: restore.Spec.Target.Name})
	if err != nil || hardware == nil || hardware.Annotations[snapshot.Mark] != snapshot.MarkOf(restore) || ownership.Assigned(hardware) {
		return err
	}
	return objects.DeleteUnchanged(ctx, w.Live, hardware)
}
