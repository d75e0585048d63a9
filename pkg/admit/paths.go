package admit

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// A VM is judged as the guest that it will be, and that has fields which nobody finds in the manifest. An error at one of them
// names the user's reference to what set it, or the place at which the user would have to write.

// finder moves errors to where a user can act.
type finder struct {
	vm   *v1.VirtualMachine
	done *run
	sent any // the VM's JSON, decoded once: errors may be many, and each is looked up
}

const templatePrefix = "spec.template."

// actionable changes paths below the template that the VM does not have. done is what made the guest that was judged.
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
		below, inGuest := strings.CutPrefix(err.Field, templatePrefix)
		if at := f.written(err.Field); inGuest && at != err.Field && !f.blamed(err, below) {
			err.Field = f.volume(err.Field, at)
		}
	}
	return errs
}

// segment is a name, or an index or key in brackets.
var segment = regexp.MustCompile(`^\.?([^.\[\]]+)|^\[([^\]]*)\]`)

// written cuts a path after its first part that was not sent. A path of which only the last part is absent stays.
func (f *finder) written(path string) string {
	here, end := f.sent, 0
	for end < len(path) {
		found := segment.FindStringSubmatch(path[end:])
		if found == nil {
			break
		}
		here = part(here, found[1]+found[2])
		if end += len(found[0]); here == nil {
			break
		}
	}
	if end < len(path) && strings.HasSuffix(path[:end], "]") { // there is no such element: the list is what there is
		end = strings.LastIndexByte(path[:end], '[')
	}
	return path[:end]
}

// part is a field or an element of a JSON value, nil when it is not there.
func part(value any, key string) any {
	switch value := value.(type) {
	case map[string]any:
		return value[key]
	case []any:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(value) {
			return value[i]
		}
	}
	return nil
}

// blamed points an error at the reference to the size, preference or preset that gave the guest the field.
func (f *finder) blamed(err *field.Error, below string) bool {
	from := f.done.filledBy(below)
	at := map[string]string{FromInstancetype: "spec.instancetype", FromPreference: "spec.preference", FromPreset: templatePrefix + "metadata.labels"}[from.kind]
	if at == "" {
		return false
	}
	err.Field = at
	err.Detail = strings.TrimSuffix(fmt.Sprintf("%s '%s' sets %s: %s", from.kind, from.name, below, err.Detail), ": ")
	return true
}

var madeDisk = regexp.MustCompile(`^spec\.template\.spec\.domain\.devices\.disks\[(\d+)\]`)

// volume is the path of the volume for which a disk was made that nobody wrote; of any other field it is otherwise.
func (f *finder) volume(path, otherwise string) string {
	found := madeDisk.FindStringSubmatch(path)
	if found == nil {
		return otherwise
	}
	at, err := strconv.Atoi(found[1])
	if err != nil || at < len(f.vm.Spec.Template.Spec.Domain.Devices.Disks) || at >= len(f.done.vmi.Spec.Domain.Devices.Disks) {
		return otherwise
	}
	for i, volume := range f.vm.Spec.Template.Spec.Volumes {
		if volume.Name == f.done.vmi.Spec.Domain.Devices.Disks[at].Name {
			return field.NewPath("spec", "template", "spec", "volumes").Index(i).String()
		}
	}
	return otherwise
}
