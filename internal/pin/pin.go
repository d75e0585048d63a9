// Package pin reads and writes the annotation that names what a VM or VMI is built from, and decides what a new value of it means. The value
// is a user's to write: it is hostile input, and asks for changes rather than making them.
package pin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/preset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the annotation.
const (
	Instancetype  = "instancetype"
	Preference    = "preference"
	Presets       = "presets"
	Configuration = "configuration"
)

var keys = []string{Instancetype, Preference, Presets, Configuration}

// Entry is the value of one key. Absent and empty differ: absent means "as before", empty asks for new pins.
type Entry struct {
	// Names are of revisions: several of presets, one of everything else.
	Names []string
	// Given reports that the key is there.
	Given bool
}

// Asks reports whether new pins are asked for: by an empty string. An empty list is no request: it names no presets.
func (e Entry) Asks() bool { return e.Given && len(e.Names) == 1 && e.Names[0] == "" }

// Pinned reports whether the entry says what is pinned, be that nothing.
func (e Entry) Pinned() bool { return e.Given && !e.Asks() }

// Name is the only name of an entry, or empty.
func (e Entry) Name() string { return strings.Join(e.Names, ", ") }

// Equal reports whether both entries pin the same.
func (e Entry) Equal(other Entry) bool {
	return e.Given == other.Given && slices.Equal(e.Names, other.Names)
}

// Written is the annotation as somebody wrote it.
type Written struct {
	Instancetype, Preference, Presets, Configuration Entry
	// Malformed reports that the value could not be read.
	Malformed bool
}

// Parse reads the annotation of a VM or VMI. An annotation that is there and empty asks for new pins of everything.
func Parse(object metav1.Object) Written {
	text, found := object.GetAnnotations()[v1alpha1.AnnotationPins]
	switch {
	case !found:
		return Written{}
	case text == "":
		asks := Entry{Names: []string{""}, Given: true}
		return Written{Instancetype: asks, Preference: asks, Presets: asks, Configuration: asks}
	}
	var values struct {
		Instancetype, Preference, Configuration *string
		Presets                                 json.RawMessage
	}
	if json.Unmarshal([]byte(text), &values) != nil {
		return Written{Malformed: true}
	}
	written := Written{Instancetype: single(values.Instancetype), Preference: single(values.Preference), Configuration: single(values.Configuration)}
	switch presets := &written.Presets; string(values.Presets) {
	case "", "null":
	case `""`:
		*presets = Entry{Names: []string{""}, Given: true}
	default:
		presets.Given = true
		if json.Unmarshal(values.Presets, &presets.Names) != nil || len(presets.Names) > preset.MaxMatching {
			return Written{Malformed: true}
		}
	}
	return written
}

func single(value *string) Entry {
	if value == nil {
		return Entry{}
	}
	return Entry{Names: []string{*value}, Given: true}
}

// Read returns what a VM or VMI is pinned to; nothing where the annotation is absent, malformed, or asks for new pins.
func Read(object metav1.Object) v1alpha1.Pins {
	written := Parse(object)
	pins := v1alpha1.Pins{Instancetype: written.Instancetype.Name(), Preference: written.Preference.Name(), Configuration: written.Configuration.Name()}
	if written.Presets.Pinned() {
		pins.Presets = append([]string{}, written.Presets.Names...)
	}
	return pins
}

// Names returns every name in the annotation, also those at keys of a newer release, which hold too. They are incomplete where it is not
// legible.
func Names(object metav1.Object) (names []string, legible bool) {
	text := object.GetAnnotations()[v1alpha1.AnnotationPins]
	if text == "" {
		return nil, true
	}
	var values map[string]any
	legible = json.Unmarshal([]byte(text), &values) == nil
	for _, value := range values {
		list, several := value.([]any)
		if !several {
			list = []any{value}
		}
		for _, one := range list {
			name, text := one.(string)
			legible = legible && (text || one == nil)
			names = append(names, name)
		}
	}
	return names, legible
}

// Write sets the annotation, or removes it when there is nothing to pin.
func Write(object metav1.Object, pins v1alpha1.Pins) {
	if pins.Equal(v1alpha1.Pins{}) {
		annotations := maps.Clone(object.GetAnnotations())
		delete(annotations, v1alpha1.AnnotationPins)
		object.SetAnnotations(annotations)
		return
	}
	text, err := json.Marshal(pins)
	if err != nil {
		panic(err) // strings always marshal
	}
	annotate(object, string(text))
}

// Ask changes the annotation of a VM so that admission pins it to what is there now, once the VM is written back: the instancetype,
// preference, presets or configuration, by the names of the keys, or all of it when none is given.
func Ask(vm metav1.Object, wanted ...string) error {
	if len(wanted) == 0 {
		annotate(vm, "")
		return nil
	}
	values := map[string]any{}
	if was := vm.GetAnnotations()[v1alpha1.AnnotationPins]; was != "" && json.Unmarshal([]byte(was), &values) != nil {
		return fmt.Errorf("annotation '%s' is malformed: repin everything instead of single keys", v1alpha1.AnnotationPins)
	}
	for _, key := range wanted {
		if !slices.Contains(keys, key) {
			return fmt.Errorf("'%s' cannot be pinned; use one of '%s'", key, strings.Join(keys, "', '"))
		}
		values[key] = ""
	}
	text, err := json.Marshal(values)
	if err == nil {
		annotate(vm, string(text))
	}
	return err
}

// Unanswered reports whether a VM still has the request of Ask, or no pins at all: no webhook has processed it.
func Unanswered(vm metav1.Object) bool {
	w := Parse(vm)
	return vm.GetAnnotations()[v1alpha1.AnnotationPins] == "" || w.Instancetype.Asks() || w.Preference.Asks() || w.Presets.Asks() || w.Configuration.Asks()
}

// annotate copies the map, which may belong to a cache.
func annotate(object metav1.Object, text string) {
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationPins] = text
	object.SetAnnotations(annotations)
}
