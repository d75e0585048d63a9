package admit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/fieldpath"
	"github.com/kilnvm/kiln/pkg/internal/filled"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// hasSources reports whether anything but defaults may fill a VMI.
func (in Input) hasSources() bool {
	return in.Set.Instancetype != nil || in.Set.Preference != nil || len(in.Presets) > 0 || len(in.Profiles) > 0
}

// newSourceFinder makes a VMI explicit again and notes what fills its fields. Admission needs this only for VMIs with errors or warnings, which are few.
func newSourceFinder(vmi *v1.VirtualMachineInstance, prefix string, written any, in Input) *sourceFinder {
	r := &run{vmi: vmi.DeepCopy(), in: in, log: filled.New()}
	r.fillers = r.fillerBuffer[:0]
	return &sourceFinder{done: r.runSteps(), sent: asJSON(written), prefix: prefix}
}

// Setters returns a function that names the instancetype, preference, preset or profile that set the field at a path of a VM's VMI. The function returns an
// empty text for a field that the user or a default set.
func Setters(vm *v1.VirtualMachine, in Input) func(path string) string {
	if !in.hasSources() {
		return func(string) string { return "" }
	}
	var finder *sourceFinder
	return func(path string) string {
		if steps := fieldpath.Parse(templatePrefix + path); leaves.StepsPresent(vm, steps) == len(steps) {
			return "" // as setterOf returns, which makes the VMI explicit again and decodes the VM
		}
		if finder == nil {
			_, done := completeVM(vm, Instance(vm), in)
			finder = &sourceFinder{vm: vm, done: done, sent: asJSON(vm), prefix: templatePrefix}
		}
		return finder.setterOf(path)
	}
}

// SettersOfVMI is Setters for a VMI as the user wrote it.
func SettersOfVMI(vmi *v1.VirtualMachineInstance, in Input) func(path string) string {
	if !in.hasSources() {
		return func(string) string { return "" }
	}
	return newSourceFinder(vmi, "", vmi, in).setterOf
}

// setterOf names the object that set the field at a path of the VMI; empty if the user or a default set it.
func (f *sourceFinder) setterOf(path string) string {
	if f.wasSent(f.prefix + path) {
		return ""
	}
	if from := f.sourceOf(&path); references[from.Kind] != "" {
		return from.quotedName()
	}
	return ""
}

// nameSource writes into the text of an error which object set its field. The path stays, because a VMI has no field that names what filled it.
func (f *sourceFinder) nameSource(err *field.Error) {
	f.nameArchitecture(err)
	below := err.Field
	if f.wasSent(below) {
		return
	}
	from := f.sourceOf(&below)
	if references[from.Kind] == "" {
		from = f.sourceOfVolume(&below)
	}
	if references[from.Kind] != "" {
		from.nameIn(err, below)
	}
}

// warningTexts returns the texts of warnings for users. A warning at a field that the user did not write names the object that set the field. f may be nil.
func warningTexts(warnings []validate.Warning, f *sourceFinder) (texts []string) {
	for _, w := range warnings {
		text := w.Text
		for _, at := range w.Fields {
			if f == nil {
				break
			}
			if from := f.setterOf(at); from != "" {
				text += fmt.Sprintf("; %s sets %s", from, strings.TrimPrefix(strings.TrimPrefix(at, "spec."), "domain."))
			}
		}
		texts = append(texts, text)
	}
	return texts
}

// withoutRefusedFields returns warnings without the warnings about fields at, above or below which is an error: one mistake has one message. prefix comes
// before a path of the warnings in the paths of the errors.
func withoutRefusedFields(errs field.ErrorList, prefix string, warnings []validate.Warning) []validate.Warning {
	return slices.DeleteFunc(warnings, func(w validate.Warning) bool {
		return slices.ContainsFunc(w.Fields, func(at string) bool {
			return slices.ContainsFunc(errs, func(err *field.Error) bool {
				_, below := fieldpath.Below(err.Field, prefix+at)
				_, above := fieldpath.Below(prefix+at, err.Field)
				return below || above
			})
		})
	})
}
