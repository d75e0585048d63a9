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

// A VM is judged by the VMI that it would boot, which has fields that are not in the manifest. Users search their manifest for the path of an error. An
// error at a field that is not in the manifest is therefore moved to the user's reference to the object that set the field, or to the nearest field that was
// sent.

// withoutErrorsBelow returns errs without the errors at and below the fields of other errors.
func withoutErrorsBelow(errs, others field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(others, func(other *field.Error) bool {
			_, below := fieldpath.Below(err.Field, other.Field)
			return below
		})
	})
}

// sourceFinder finds what set the fields of a VMI. It moves errors to fields that the user can change, and names the source in their messages.
type sourceFinder struct {
	vm    *v1.VirtualMachine // nil if the user wrote a VMI
	done  *run
	draft validate.Draft // what was judged
	sent  any            // the JSON of what the user wrote, decoded once for all errors: a manifest can have thousands
	// prefix comes before a path of the VMI in what the user wrote: templatePrefix for a VM, nothing for a VMI.
	prefix string
}

const templatePrefix = "spec.template."

// asJSON returns an object as decoded JSON. It is nil if the object cannot be marshalled, which does not happen to a VM that was decoded.
func asJSON(object any) (decoded any) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return nil
	}
	return decoded
}

// moveErrors moves errors at fields of the template that the VM does not have.
func (f *sourceFinder) moveErrors(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		if below, inGuest := strings.CutPrefix(err.Field, templatePrefix); inGuest && f.sent != nil {
			f.moveError(err, below)
		}
	}
	return errs
}

// moveError adds to an error the object that set the field, if the VM does not have the field. below is the path in the VMI. The error keeps its path, as in
// KubeVirt, if an instancetype, a preference or a preset filled the field in an object that the user sent. Otherwise it is moved to the reference to the
// source.
func (f *sourceFinder) moveError(err *field.Error, below string) {
	f.nameArchitecture(err)
	if f.wasSent(err.Field) || f.moveThreadError(err) {
		return
	}
	at, from := f.nearestSent(err.Field), f.sourceOf(&below)
	if references[from.Kind] == "" {
		from = f.sourceOfVolume(&below)
	}
	switch {
	case references[from.Kind] == "":
		err.Field = f.volumePath(err.Field, at)
	case at == err.Field && !from.isProfile():
		from.nameIn(err, below)
	default:
		from.nameIn(err, below)
		err.Field = references[from.Kind]
	}
}

// nameArchitecture adds to an error that names the architecture of the VMI the object that set it.
func (f *sourceFinder) nameArchitecture(err *field.Error) {
	const at = "spec.architecture"
	if !validate.NamesArchitecture(err, f.draft) {
		return
	}
	if by := f.setterOf(at); by != "" {
		err.Detail += "; " + by + " sets " + at
	}
}

// sourceOf returns what set the field at *below. If a default filled the field within an object that a source set, the source counts, and *below becomes the
// path of the object.
func (f *sourceFinder) sourceOf(below *string) filler {
	from := f.done.filledBy(*below)
	steps := fieldpath.Parse(*below)
	if references[from.Kind] != "" || len(steps) < 2 {
		return from
	}
	for _, object := range []string{*below, fieldpath.Join(steps[:len(steps)-1])} {
		if by := f.done.objectFilledBy(object); references[by.Kind] != "" && !f.wasSent(f.prefix+object) {
			*below = object
			return by
		}
	}
	// A field that is missing in an object that the user did not write belongs to the source that filled another field of the object.
	if parent := fieldpath.Join(steps[:len(steps)-1]); len(steps) > 3 && !f.wasSent(f.prefix+parent) {
		if by := f.done.filledBy(parent); references[by.Kind] != "" {
			*below = parent
			return by
		}
	}
	return from
}

// moveThreadError moves an error about the threads per core of an instancetype to the preference. Only a preference arranges vCPUs as threads: a VM with an
// instancetype cannot set them.
func (f *sourceFinder) moveThreadError(err *field.Error) bool {
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

// wasSent reports whether the user sent a field. An empty text does not count: the JSON of some types, such as the type of an input, has it for an absent
// value.
func (f *sourceFinder) wasSent(path string) bool {
	here := f.sent
	for _, step := range fieldpath.Parse(path) {
		here = childOf(here, step)
	}
	return here != nil && here != ""
}

// nearestSent returns the path up to its first step that was not sent. A path of which only the last step is absent stays as it is. For an absent element of a
// list it returns the path of the list.
func (f *sourceFinder) nearestSent(path string) string {
	here, steps := f.sent, fieldpath.Parse(path)
	for i, step := range steps {
		if here = childOf(here, step); here != nil || i == len(steps)-1 {
			continue
		}
		if !step.Element {
			i++
		}
		return fieldpath.Join(steps[:i])
	}
	return path
}

// childOf returns a field or an element of a decoded JSON value; nil if it is absent.
func childOf(value any, step fieldpath.Step) any {
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

// nameIn writes into the text of an error that the origin set the field. The advice at the end of the text, which is about the field, becomes advice about the
// origin.
func (o Origin) nameIn(err *field.Error, below string) {
	detail, instead := err.Detail, insteads[o.Kind]
	if found := advice.FindStringIndex(detail); found != nil && instead != "" {
		detail = detail[:found[0]] + ": " + instead
	}
	err.Detail = strings.TrimSuffix(fmt.Sprintf("%s sets %s: %s", o.quotedName(), below, detail), ": ")
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

func (o Origin) isProfile() bool { return o.Kind == FromProfile || o.Kind == FromClusterProfile }

// references are the fields by which a VM names or selects what fills it. Presets and profiles have no reference: they select the VMI by its labels.
var references = map[string]string{
	FromInstancetype:   "spec.instancetype",
	FromPreference:     "spec.preference",
	FromPreset:         templatePrefix + "metadata.labels",
	FromProfile:        templatePrefix + "metadata.labels",
	FromClusterProfile: templatePrefix + "metadata.labels",
}

// quotedName returns the origin as messages name it, such as "preference 'small'".
func (o Origin) quotedName() string {
	text := fmt.Sprintf("%s '%s'", o.Kind, o.Name)
	if o.Extends != nil {
		text += ", which extends " + o.Extends.quotedName() + ","
	}
	return text
}

// disksPath is the path of the disks in a VM.
const disksPath = templatePrefix + "spec.domain.devices.disks"

// volumePath returns the path of the volume for which stage 1 made the disk at a path. A volume without a disk gets a disk of its name behind the disks that
// were written. For a path of any other field it returns otherwise.
func (f *sourceFinder) volumePath(path, otherwise string) string {
	below, _ := fieldpath.Below(path, disksPath)
	name, field, ok := f.madeDisk(below)
	if !ok || f.vm == nil {
		return otherwise
	}
	for i, volume := range f.vm.Spec.Template.Spec.Volumes {
		if volume.Name == name {
			at := templatePath.Child("spec", "volumes").Index(i)
			if field == ".name" && f.wasSent(at.Child("name").String()) {
				return at.Child("name").String()
			}
			return at.String()
		}
	}
	return otherwise
}

// sourceOfVolume returns what set the volume for which stage 1 made the disk at *below. *below becomes the path of the volume.
func (f *sourceFinder) sourceOfVolume(below *string) filler {
	rest, _ := fieldpath.Below(f.prefix+*below, f.prefix+"spec.domain.devices.disks")
	name, _, ok := f.madeDisk(rest)
	if !ok {
		return filler{}
	}
	for i, volume := range f.done.vmi.Spec.Volumes {
		if at := fmt.Sprintf("spec.volumes[%d]", i); volume.Name == name {
			from := f.done.filledBy(at)
			if references[from.Kind] != "" {
				*below = at
			}
			return from
		}
	}
	return filler{}
}

// madeDisk returns the name of the disk to which a path below the list of disks leads, and the rest of the path. ok is false if the user wrote the disk.
func (f *sourceFinder) madeDisk(below string) (name, rest string, ok bool) {
	steps := fieldpath.Parse(below)
	if len(steps) == 0 {
		return "", "", false
	}
	written := 0
	if f.vm != nil {
		written = len(f.vm.Spec.Template.Spec.Domain.Devices.Disks)
	}
	at, ok := steps[0].Index()
	if !ok || at < written || at >= len(f.done.vmi.Spec.Domain.Devices.Disks) {
		return "", "", false
	}
	_, rest, _ = strings.Cut(below, "]")
	return f.done.vmi.Spec.Domain.Devices.Disks[at].Name, rest, true
}
