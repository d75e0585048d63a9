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
		{Name: "security/record", KubeVirt: KubeVirtAdmits},
	}},
}

// GuestHardware judges recorded hardware. path is the path of the spec.
func GuestHardware(spec *v1alpha1.GuestHardwareSpec, path *field.Path) (errs field.ErrorList) {
	for _, rule := range recordRules {
		errs = append(errs, rule.judge(spec, path)...)
	}
	return errs
}

func recordedHardware(spec *v1alpha1.GuestHardwareSpec, path *field.Path) field.ErrorList {
	if err := record.Check(spec.Hardware); err != nil {
		return field.ErrorList{field.Forbidden(path.Child("hardware"),
			err.Error()+": use the record that 'kubectl kiln capture' or a boot wrote").WithOrigin("security/record")}
	}
	return nil
}

var hardwareRules = []Rule{{Name: "security/hardware", KubeVirt: KubeVirtAdmits}}

func requestedHardware(change GuestChange, _ config.Limits) field.ErrorList {
	return hardwareAnnotation(change.New.Annotations, nil)
}

// hardwareOfVM judges the annotation of a VM and of its template. On update the VM's own is judged only if it changed.
func hardwareOfVM(vm, old *v1.VirtualMachine, _ config.Limits) (errs field.ErrorList) {
	if vm.Spec.Template != nil {
		errs = hardwareAnnotation(vm.Spec.Template.ObjectMeta.Annotations, ofVM.Child("template"))
	}
	if old != nil {
		return append(errs, HardwareChange(vm, old)...)
	}
	return append(errs, hardwareAnnotation(vm.Annotations, nil)...)
}

// hardwareAnnotation judges the annotation kilnvm.io/hardware, whose only value is 'latest': each boot then derives the hardware anew.
// path is the object that holds metadata.
func hardwareAnnotation(annotations map[string]string, path *field.Path) field.ErrorList {
	word := annotations[v1alpha1.AnnotationHardware]
	if word == "" || word == v1alpha1.HardwareLatest {
		return nil
	}
	at := path.Child("metadata", "annotations").Key(v1alpha1.AnnotationHardware)
	return field.ErrorList{field.NotSupported(at, short(word), []string{v1alpha1.HardwareLatest}).WithOrigin("security/hardware")}
}

// HardwareChange judges the annotation kilnvm.io/hardware of a VM if an update changes it. It is the only rule for updates that do not change the spec.
func HardwareChange(now, was *v1.VirtualMachine) field.ErrorList {
	if now.Annotations[v1alpha1.AnnotationHardware] == was.Annotations[v1alpha1.AnnotationHardware] {
		return nil
	}
	return hardwareAnnotation(now.Annotations, nil)
}
