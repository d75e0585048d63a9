package profile

import (
	"reflect"

	"github.com/kilnvm/kiln/pkg/fieldpath"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// hasPath reports whether a VMI has a path.
func hasPath(vmi *v1.VirtualMachineInstance, path string) bool {
	steps := fieldpath.Parse(path)
	return leaves.StepsPresent(vmi, steps) == len(steps)
}

// isAtContent reports whether an error is at or below what a profile sets. A field beside it that a VM can set does not count: a rule that asks for it
// asks the VM.
func isAtContent(content *v1.VirtualMachineInstance, err *field.Error) bool {
	steps := fieldpath.Parse(err.Field)
	switch missing := len(steps) - leaves.StepsPresent(content, steps); {
	case missing == 0:
		return err.Type != field.ErrorTypeRequired || !canSetBeside(steps)
	case missing == 1:
		return !canSetBeside(steps)
	}
	return false
}

// canSetBeside reports whether a VM can set fields at a path besides the fields of a profile. It cannot in elements without names: a list of them is filled
// only if the VM has none.
func canSetBeside(steps []fieldpath.Step) bool {
	at := reflect.TypeFor[v1.VirtualMachineInstance]()
	for _, step := range steps {
		for at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
		switch {
		case at.Kind() == reflect.Slice && names[at.Elem()] == nil:
			return false
		case at.Kind() == reflect.Slice, at.Kind() == reflect.Map:
			at = at.Elem()
		case fieldTypes(at)[step.Text] == nil:
			return false
		default:
			at = fieldTypes(at)[step.Text]
		}
	}
	return true
}
