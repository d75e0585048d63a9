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

// finder moves errors to where a user can act, and names who set a field.
type finder struct {
	vm   *v1.VirtualMachine // nil if the user wrote a VMI
	done *run
	sent any // the JSON of what the user wrote, decoded once for all errors: a manifest can have thousands
	// prefix is what a path of the VMI begins with in what the user wrote.
	prefix string
}

const templatePrefix = "spec.template."

// sent returns the JSON of an object; nil if it cannot be written, which a VM that was read can.
func sent(object any) (decoded any) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return nil
	}
	return decoded
}

// actionable changes paths below the template that the VM does not have.
func (f *finder) actionable(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		if below, inGuest := strings.CutPrefix(err.Field, templatePrefix); inGuest && f.sent != nil {
			f.move(err, below)
		}
	}
	return errs
}

// move names who set the value of a field that the VM does not have. below is the path in the VMI. A field that an instancetype, a preference or a preset
// filled in an object of the user keeps its path, as in KubeVirt. An error at any other field that was not sent is moved to the reference to its source.
func (f *finder) move(err *field.Error, below string) {
	f.nameArchitecture(err)
	if f.has(err.Field) || f.arranged(err) {
		return
	}
	at, from := f.written(err.Field), f.source(&below)
	if references[from.Kind] == "" {
		from = f.sourceOfVolume(&below)
	}
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

// nameArchitecture says who set the architecture that an error is about.
func (f *finder) nameArchitecture(err *field.Error) {
	const at = "spec.architecture"
	if by := f.setter(at); by != "" && strings.Contains(err.Detail, "architecture '"+f.done.vmi.Spec.Architecture+"'") {
		err.Detail += "; " + by + " sets " + at
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
		if by := f.done.gaveObject(object); references[by.Kind] != "" && !f.has(f.prefix+object) {
			*below = object
			return by
		}
	}
	// What is missing in an object that the user did not write is missing beside what a source has put there.
	if parent := fieldpath.Join(steps[:len(steps)-1]); len(steps) > 3 && !f.has(f.prefix+parent) {
		if by := f.done.filledBy(parent); references[by.Kind] != "" {
			*below = parent
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

// volume returns the path of the volume for which stage 1 made a disk: a volume without a disk gets one, behind those that were written. The disk has its name
// from the volume. For any other field it returns otherwise.
func (f *finder) volume(path, otherwise string) string {
	below, _ := fieldpath.Below(path, disks)
	name, field, ok := f.madeDisk(below)
	if !ok || f.vm == nil {
		return otherwise
	}
	for i, volume := range f.vm.Spec.Template.Spec.Volumes {
		if volume.Name == name {
			at := template.Child("spec", "volumes").Index(i)
			if field == ".name" && f.has(at.Child("name").String()) {
				return at.Child("name").String()
			}
			return at.String()
		}
	}
	return otherwise
}

// sourceOfVolume returns who set the volume for which stage 1 made the disk at *below: the path becomes the volume's.
func (f *finder) sourceOfVolume(below *string) filler {
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

// madeDisk returns the name of the disk that a path below the list of disks leads to, and the rest of the path. ok is false for disks that were written.
func (f *finder) madeDisk(below string) (name, rest string, ok bool) {
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
