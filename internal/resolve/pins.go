package resolve

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/preset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pin is one key of the pins annotation. Absent and empty differ: absent means "as before", empty asks for a new one.
type pin struct {
	name  string
	given bool
}

// pinList is a key that holds several names, or one.
type pinList struct {
	names []string
	given bool
}

// asked tells whether new pins are asked for: by an empty value, where none would be an empty list.
func (p pinList) asked() bool { return p.given && len(p.names) == 1 && p.names[0] == "" }

// list is a single pin as a list, empty when it is none.
func (p pin) list() (l pinList) {
	if p.name != "" {
		l = pinList{names: []string{p.name}, given: true}
	}
	return l
}

type pins struct {
	size, preference       pin
	presets, configuration pinList
	// malformed is the value that could not be read.
	malformed bool
}

// readPins reads the annotation. An annotation that is present and empty asks for new pins of everything.
func readPins(object metav1.Object) pins {
	text, found := object.GetAnnotations()[v1alpha1.AnnotationPins]
	switch {
	case !found:
		return pins{}
	case text == "":
		asked := pinList{names: []string{""}, given: true}
		return pins{size: pin{given: true}, preference: pin{given: true}, presets: asked, configuration: asked}
	}
	var keys struct {
		Instancetype, Preference, Configuration *string
		Presets                                 json.RawMessage
	}
	if json.Unmarshal([]byte(text), &keys) != nil {
		return pins{malformed: true}
	}
	read := pins{size: given(keys.Instancetype), preference: given(keys.Preference)}
	if keys.Configuration != nil {
		read.configuration = pinList{names: []string{*keys.Configuration}, given: true}
	}
	if read.presets.given = keys.Presets != nil && string(keys.Presets) != "null"; string(keys.Presets) == `""` {
		read.presets.names = []string{""}
	} else if read.presets.given && json.Unmarshal(keys.Presets, &read.presets.names) != nil || len(read.presets.names) > preset.MaxMatching {
		return pins{malformed: true}
	}
	return read
}

func given(value *string) pin {
	if value == nil {
		return pin{}
	}
	return pin{name: *value, given: true}
}

// asks tells whether a pin is to be another one. The first pin of a guest is the controller's to write.
func (p pin) asks(old pin) bool {
	return p.given && (p.name == "" || old.name != "" && p.name != old.name)
}

// ReadPins are the pins of a VM or VMI; empty when it has none or they cannot be read.
func ReadPins(object metav1.Object) v1alpha1.Pins {
	p := readPins(object)
	read := v1alpha1.Pins{Instancetype: p.size.name, Preference: p.preference.name}
	if p.presets.given && !p.presets.asked() {
		read.Presets = append([]string{}, p.presets.names...)
	}
	if p.configuration.given {
		read.Configuration = p.configuration.names[0]
	}
	return read
}

// WritePins sets the annotation, or removes it when there is nothing to pin.
func WritePins(object metav1.Object, p v1alpha1.Pins) {
	annotations := maps.Clone(object.GetAnnotations())
	if p.Equal(v1alpha1.Pins{}) {
		delete(annotations, v1alpha1.AnnotationPins)
		object.SetAnnotations(annotations)
		return
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings always marshal
	}
	annotations[v1alpha1.AnnotationPins] = string(text)
	object.SetAnnotations(annotations)
}

// wish is what is asked of the resolution of one matcher.
type wish struct {
	ref *reference
	// new says that no revision of this name was asked for before.
	new bool
	// pin is the revision to use if it can be; empty means a new one.
	pin string
	// kept says that the guest was admitted with this pin: another must not silently take its place.
	kept bool
	// foreign is a pin that somebody put into the place of the recorded one. It is accepted only when it is what a new
	// pin would be, which also makes a second call of admission for one request agree with the first.
	foreign string
	// status allows what the status records, for VMs that were admitted by KubeVirt. It never answers a wish for a new pin.
	status bool
}

// wanted decides what to ask for, from the old object (nil on create) and the new one.
func wanted(ref, oldRef *reference, now, old pin) wish {
	switch {
	case ref == nil:
		return wish{}
	case oldRef == nil || !ref.same(oldRef): // create, or another size: a pin is only good if it fits
		if now.name == old.name {
			now.name = "" // the pin of the matcher that was there before
		}
		return wish{ref: ref, pin: now.name, new: oldRef == nil || oldRef.revision != ref.revision}
	case now.given && now.name == "":
		return wish{ref: ref}
	case !now.given || now.name == old.name:
		return wish{ref: ref, pin: old.name, kept: old.name != "", status: true}
	case old.name == "":
		return wish{ref: ref, pin: now.name}
	}
	return wish{ref: ref, foreign: now.name}
}

func foreignPin(name string) *field.Error {
	return field.Invalid(field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationPins), name,
		"the recorded revision cannot be exchanged for another: name an older one in revisionName, or set the annotation to '' for the current one").WithOrigin("vm/pin")
}

// Keys of the pins annotation.
var pinKeys = []string{sizes.field, preferences.field, presets.field, configurations.field}

// Repin asks admission to pin a VM to what is there now: what the given keys ('instancetype', 'preference',
// 'presets', 'configuration') mean, or all of it when none is given. The VM is to be written back to the API server.
func Repin(vm metav1.Object, keys ...string) error {
	text := ""
	if len(keys) > 0 {
		asked := map[string]any{}
		if was := vm.GetAnnotations()[v1alpha1.AnnotationPins]; was != "" && json.Unmarshal([]byte(was), &asked) != nil {
			return fmt.Errorf("annotation '%s' cannot be read: pin everything anew", v1alpha1.AnnotationPins)
		}
		for _, key := range keys {
			if !slices.Contains(pinKeys, key) {
				return fmt.Errorf("'%s' cannot be pinned, use one of '%s'", key, strings.Join(pinKeys, "', '"))
			}
			asked[key] = ""
		}
		written, err := json.Marshal(asked)
		if err != nil {
			return err
		}
		text = string(written)
	}
	annotations := maps.Clone(vm.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationPins] = text
	vm.SetAnnotations(annotations)
	return nil
}
