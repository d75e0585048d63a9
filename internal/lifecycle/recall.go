package lifecycle

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recall gives the next guest UUID, serial and MACs of the last boot, whatever became of the seed that they were derived from. All else of
// the record is read by the launcher. The record is read live: a guest that starts with an old one has moved devices. Guests whose owner
// wants the latest hardware get none.
func (c *Controller) recall(ctx context.Context, vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) error {
	hardware, err := Hardware(ctx, c.Live, client.ObjectKeyFromObject(vm))
	if err != nil {
		return err
	}
	at := field.NewPath("guesthardwares").Key(vm.Name).Child("spec")
	title := ClaimOf(vm).Title(hardware)
	switch {
	case title == Foreign:
		return &resolve.Refusal{Errors: field.ErrorList{field.Forbidden(at.Child("identity"), Foreigner(hardware))}}
	case title != Own || vm.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest || hardware.Spec.Hardware == nil:
		return nil
	}
	if err := record.Check(hardware.Spec.Hardware); err != nil { // no repetition mends it
		return &resolve.Refusal{Errors: field.ErrorList{field.Invalid(at.Child("hardware"), field.OmitValueType{}, err.Error()+
			"; have an administrator mend or delete it, or set annotation '"+v1alpha1.AnnotationHardware+": "+v1alpha1.HardwareLatest+"' on the VM for new hardware")}}
	}
	identity.Recall(vmi, hardware.Spec.Hardware)
	return nil
}
