package admit

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/fieldpath"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// A VM is judged by the VMI that it would boot, which has fields that are not in the manifest. An error at one of them is moved to the user's
// reference to what set it, or to the nearest field that was sent: users search their manifest for the path of an error.

// elsewhere leaves out errors at fields that conflict with the instancetype. The VMI was judged with the user's values there: everything else
// that is wrong is reported at once.
func elsewhere(errs, conflicts field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(conflicts, func(c *field.Error) bool {
			_, below := fieldpath.Below(err.Field, c.Field)
			return below
		})
	})
}

// finder moves errors to where a user can act.
type finder struct {
	vm   *v1.VirtualMachine
	done *run
	sent any // the VM's JSON, decoded once for all errors: a manifest can have thousands
}

const templatePrefix = "spec.template."

// actionable changes paths below the template that the VM does not have. done is the run that made the VMI which was judged. It costs a
// marshalled VM, and nothing where there are no errors.
func actionable(errs field.ErrorList, vm *v1.VirtualMachine, done *run) field.ErrorList {
	if len(errs) == 0 {
		return errs
	}
	raw, err := json.Marshal(vm)
	if err != nil {
		return errs // a VM that was read can be written
	}
	f := finder{vm: vm, done: done}
	if err := json.Unmarshal(raw, &f.sent); err != nil {
		return errs
	}
	for _, err := range errs {
		if below, inGuest := strings.CutPrefix(err.Field, templatePrefix); inGuest {
			f.move(err, below)
		}
	}
	return errs
}

// move names who set the value of a field that the VM does not have. below is the path in the VMI. A field that an instancetype, a preference or a preset
// filled in an object of the user keeps its path, as in KubeVirt. An error at any other field that was not sent is moved to the reference to its source.
func (f *finder) move(err *field.Error, below string) {
	if f.has(err.Field) || f.arranged(err) {
		return
	}
	at, from := f.written(err.Field), f.source(&below)
	switch {
	case references[from.Kind] == "":
		err.Field = f.volume(err.Field, at)
	case at == err.Field && !from.byProfile():
		from.name(err, below)
	default:
		from.name(err, below)
		err.Field = references[from.Kind]
	}
}

// source returns who set the field that is at *below. What a default filled in an object of a source is the source's: its path becomes that of the object.
func (f *finder) source(below *string) filler {
	from := f.done.filledBy(*below)
	steps := fieldpath.Parse(*below)
	if references[from.Kind] != "" || len(steps) < 2 {
		return from
	}
	for _, object := range []string{*below, fieldpath.Join(steps[:len(steps)-1])} {
		if by := f.done.gaveObject(object); references[by.Kind] != "" && !f.has(templatePrefix+object) {
			*below = object
			return by
		}
	}
	return from
}

// arranged moves an error about the threads per core of an instancetype to the preference, which alone arranges vCPUs as threads: a VM cannot set the
// threads beside an instancetype.
func (f *finder) arranged(err *field.Error) bool {
	set := f.done.in.Set
	if set.Instancetype == nil || set.Preference == nil || err.Origin != "cpu/dedicated-threads" && err.Origin != "cpu/dedicated-threads-arm64" {
		return false
	}
	most, on := validate.MaxThreads, "dedicatedCpuPlacement allows at most"
	if err.Origin == "cpu/dedicated-threads-arm64" {
		most, on = 1, "arm64 with dedicatedCpuPlacement has"
	}
	threads := f.done.vmi.Spec.Domain.CPU.Threads
	*err = field.Error{Type: field.ErrorTypeInvalid, Field: references[FromPreference], BadValue: threads, Origin: err.Origin, Detail: fmt.Sprintf(
		"preference '%s' arranges the %d vCPUs of instancetype '%s' with %d threads per core, and %s %d: choose a preference that arranges them otherwise, or "+
			"an instancetype of at most %d vCPUs or without dedicated CPUs",
		set.Preference.Name, set.Instancetype.Spec.CPU.Guest, set.Instancetype.Name, threads, on, most, most)}
	return true
}

// has reports whether the VM has a field. The JSON of some has an empty text where the user wrote nothing, such as the type of an input.
func (f *finder) has(path string) bool {
	here := f.sent
	for _, step := range fieldpath.Parse(path) {
		here = part(here, step)
	}
	return here != nil && here != ""
}

// written cuts a path after its first step that was not sent. A path of which only the last step is absent stays; of an element that is absent,
// the list is what there is.
func (f *finder) written(path string) string {
	here, steps := f.sent, fieldpath.Parse(path)
	for i, step := range steps {
		if here = part(here, step); here != nil || i == len(steps)-1 {
			continue
		}
		if !step.Element {
			i++
		}
		return fieldpath.Join(steps[:i])
	}
	return path
}

// part is a field or an element of a JSON value, nil when it is not there.
func part(value any, step fieldpath.Step) any {
	switch value := value.(type) {
	case map[string]any:
		return value[step.Text]
	case []any:
		if i, ok := step.Index(); ok && i < len(value) {
			return value[i]
		}
	}
	return nil
}

// name says in the text of an error that the origin set the field. What the error tells the user to do with the field becomes what can be done about the
// origin.
func (o Origin) name(err *field.Error, below string) {
	detail, instead := err.Detail, insteads[o.Kind]
	if found := advice.FindStringIndex(detail); found != nil && instead != "" {
		detail = detail[:found[0]] + ": " + instead
	}
	err.Detail = strings.TrimSuffix(fmt.Sprintf("%s sets %s: %s", o.quoted(), below, detail), ": ")
}

// advice is the end of a message that tells the user what to do.
var advice = regexp.MustCompile(`: (remove|lower|raise|use|set|add|give|write|correct|choose) [^:]*$`)

// insteads are what a user can do about a value that is not in the manifest, by who set it.
var insteads = map[string]string{
	FromInstancetype:   "choose another instancetype",
	FromPreference:     "choose another preference",
	FromPreset:         "correct the preset, or the labels that it selects",
	FromProfile:        "correct the profile, or the labels that it selects",
	FromClusterProfile: "choose labels that the profile does not select, or have it corrected",
}

func (o Origin) byProfile() bool { return o.Kind == FromProfile || o.Kind == FromClusterProfile }

// references are the fields by which a VM names or selects what fills it. Presets and profiles have no reference: they select the VMI by its labels.
var references = map[string]string{
	FromInstancetype:   "spec.instancetype",
	FromPreference:     "spec.preference",
	FromPreset:         templatePrefix + "metadata.labels",
	FromProfile:        templatePrefix + "metadata.labels",
	FromClusterProfile: templatePrefix + "metadata.labels",
}

// quoted is the origin in the message of an error.
func (o Origin) quoted() string {
	text := fmt.Sprintf("%s '%s'", o.Kind, o.Name)
	if o.Extends != nil {
		text += ", which extends " + o.Extends.quoted() + ","
	}
	return text
}

// disks are the list in a VM's template.
const disks = templatePrefix + "spec.domain.devices.disks"

// volume returns the path of the volume for which stage 1 made a disk: a volume without a disk gets one, behind those that were written. For
// any other field it returns otherwise.
func (f *finder) volume(path, otherwise string) string {
	below, _ := fieldpath.Below(path, disks)
	steps := fieldpath.Parse(below)
	if len(steps) == 0 {
		return otherwise
	}
	at, ok := steps[0].Index()
	if !ok || at < len(f.vm.Spec.Template.Spec.Domain.Devices.Disks) || at >= len(f.done.vmi.Spec.Domain.Devices.Disks) {
		return otherwise
	}
	for i, volume := range f.vm.Spec.Template.Spec.Volumes {
		if volume.Name == f.done.vmi.Spec.Domain.Devices.Disks[at].Name {
			return template.Child("spec", "volumes").Index(i).String()
		}
	}
	return otherwise
}
