package workbench

import (
	"cmp"

	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	v1 "kubevirt.io/api/core/v1"
)

// KeepFills copies into a VMI the fields that KubeVirt has set in the stored VMI and that its manifest lacks. Otherwise the update would seem to remove them.
func KeepFills(now, was *v1.VirtualMachineInstance) {
	if is := was.Spec.Domain.Machine; is != nil && now.Spec.Domain.Machine == nil {
		now.Spec.Domain.Machine = is.DeepCopy()
	}
	now.Spec.Architecture = cmp.Or(now.Spec.Architecture, was.Spec.Architecture)
	if was.Spec.Domain.Firmware != nil && now.Spec.Domain.Firmware == nil {
		now.Spec.Domain.Firmware = &v1.Firmware{}
	}
	now.Spec.Domain.Firmware = virtcontroller.KeptFirmware(now.Spec.Domain.Firmware, was.Spec.Domain.Firmware)
	now.Annotations = virtcontroller.KeptAnnotations(now.Annotations, was.Annotations)
}

// keepTemplate does the same as KeepFills in the template of a VM.
func keepTemplate(now, was *v1.VirtualMachine) {
	if now.Spec.Template == nil || was.Spec.Template == nil {
		return
	}
	is, had := now.Spec.Template, was.Spec.Template
	vmi := &v1.VirtualMachineInstance{ObjectMeta: is.ObjectMeta, Spec: is.Spec}
	KeepFills(vmi, &v1.VirtualMachineInstance{ObjectMeta: had.ObjectMeta, Spec: had.Spec})
	is.ObjectMeta, is.Spec = vmi.ObjectMeta, vmi.Spec
}
