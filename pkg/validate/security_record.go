package validate

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: the annotations kilnvm.io/frontend and kilnvm.io/hardware.
// A guest may come with a record of the hardware that it had elsewhere: in the template of its VM, or on a VMI that is restored. The record
// is its owner's word, so that it may ask for nothing that the spec could not.

var recordRules = []metadataRule{
	{hardwareRecord, []Rule{
		{Name: "security/record"},
		{Name: "security/record-machine", MendedBy: byPreference, ControllersMay: true},
		{Name: "security/record-video", MendedBy: byPreference, ControllersMay: true},
	}},
}

func hardwareRecord(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	text, at := vmi.Annotations[v1alpha1.AnnotationFrontend], path.Child("metadata", "annotations").Key(v1alpha1.AnnotationFrontend)
	record, err := record.Parse(text)
	if err != nil {
		return field.ErrorList{field.Invalid(at, short(text), err.Error()+": give what 'kubectl kiln capture' or a boot has written, or remove it").WithOrigin("security/record")}
	}
	board, known := boards[vmi.Spec.Architecture]
	if record == nil || !known {
		return nil // the architecture has a rule of its own
	}
	allowed := emulated(vmi.Spec.Architecture, limits)
	if !board.has(record.Machine) {
		allowed = []string{board.alias, board.family + "<version>"}
	}
	if record.Machine != "" && !(board.has(record.Machine) && matchesAny(allowed, record.Machine)) {
		errs = append(errs, recorded("machine", field.NotSupported(at, record.Machine, allowed)).WithOrigin("security/record-machine"))
	}
	if models := videoModels[vmi.Spec.Architecture]; record.Video != "" && !slices.Contains(models, record.Video) {
		errs = append(errs, recorded("video", field.NotSupported(at, record.Video, models)).WithOrigin("security/record-video"))
	}
	return errs
}

// recorded names the entry of a record that an error is about.
func recorded(entry string, err *field.Error) *field.Error {
	err.Detail = entry + ": " + err.Detail
	return err
}

var hardwareRules = []Rule{{Name: "security/hardware"}}

func requestedHardware(change GuestChange, _ config.Limits) field.ErrorList {
	return hardwareWord(change.New.Annotations, nil)
}

// hardwareOfVM judges what a VM asks for itself, and in the template.
func hardwareOfVM(vm, old *v1.VirtualMachine, _ config.Limits) (errs field.ErrorList) {
	if vm.Spec.Template != nil {
		errs = hardwareWord(vm.Spec.Template.ObjectMeta.Annotations, ofVM.Child("template"))
	}
	if old != nil {
		return append(errs, HardwareChange(vm, old)...)
	}
	return append(errs, hardwareWord(vm.Annotations, nil)...)
}

// hardwareWord judges what an object asks of its later boots. path is the object that holds metadata.
func hardwareWord(annotations map[string]string, path *field.Path) field.ErrorList {
	word := annotations[v1alpha1.AnnotationHardware]
	if word == "" || word == v1alpha1.HardwareLatest {
		return nil
	}
	at := path.Child("metadata", "annotations").Key(v1alpha1.AnnotationHardware)
	return field.ErrorList{field.NotSupported(at, short(word), []string{v1alpha1.HardwareLatest}).WithOrigin("security/hardware")}
}

// HardwareChange judges what a VM that exists asks of its later boots, if that was changed. Nothing else of an update that leaves the
// spec alone is judged.
func HardwareChange(now, was *v1.VirtualMachine) field.ErrorList {
	if now.Annotations[v1alpha1.AnnotationHardware] == was.Annotations[v1alpha1.AnnotationHardware] {
		return nil
	}
	return hardwareWord(now.Annotations, nil)
}
