package validate

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: the spec of GuestHardware, and the annotation kilnvm.io/hardware.
// A record may come from a backup that a tenant edited, or from a launcher whose node was taken over. A record that no
// boot can have written is refused.

type hardwareRule = judgement[func(*v1alpha1.GuestHardwareSpec, *field.Path) field.ErrorList]

var recordRules = []hardwareRule{
	{recordedHardware, []Rule{
		{Name: "security/record"},
	}},
}

// GuestHardware judges recorded hardware; path is its spec.
func GuestHardware(spec *v1alpha1.GuestHardwareSpec, path *field.Path) (errs field.ErrorList) {
	for _, rule := range recordRules {
		errs = append(errs, rule.judge(spec, path)...)
	}
	return errs
}

func recordedHardware(spec *v1alpha1.GuestHardwareSpec, path *field.Path) field.ErrorList {
	if err := record.Check(spec.Hardware); err != nil {
		return field.ErrorList{field.Invalid(path.Child("hardware"), field.OmitValueType{},
			err.Error()+": use the record that 'kubectl kiln capture' or a boot wrote").WithOrigin("security/record")}
	}
	return nil
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
