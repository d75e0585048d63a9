// Package pin reads and writes annotation kilnvm.io/pins, which names the revisions that a VM or VMI is built from, and decides what a change of
// it means. Tenants may write the annotation: it is hostile input, a request that admission grants or refuses.
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

// Entry is the value of one key. An absent key leaves the pin as it is, an empty string requests a repin.
type Entry struct {
	// Names are names of revisions: any number for presets, one for the other keys.
	Names []string
	// Given reports that the key is present.
	Given bool
}

// RepinRequested reports whether the value is an empty string. An empty list is not: it pins no presets.
func (e Entry) RepinRequested() bool { return e.Given && len(e.Names) == 1 && e.Names[0] == "" }

// Pinned reports whether the entry names pins. An empty list pins that there are no presets.
func (e Entry) Pinned() bool { return e.Given && !e.RepinRequested() }

// Name returns the name of an entry that has one, else empty.
func (e Entry) Name() string { return strings.Join(e.Names, ", ") }

// Equal reports whether both entries pin the same.
func (e Entry) Equal(other Entry) bool {
	return e.Given == other.Given && slices.Equal(e.Names, other.Names)
}

// Written is the annotation as it was written, by Kiln or a tenant.
type Written struct {
	Instancetype, Preference, Presets, Configuration Entry
	// Malformed reports that the value is not JSON of the right shape, or names more presets than may match.
	Malformed bool
}

// Parse reads the annotation of a VM or VMI. An empty annotation requests a repin of every key.
func Parse(object metav1.Object) Written {
	text, found := object.GetAnnotations()[v1alpha1.AnnotationPins]
	switch {
	case !found:
		return Written{}
	case text == "":
		repin := Entry{Names: []string{""}, Given: true}
		return Written{Instancetype: repin, Preference: repin, Presets: repin, Configuration: repin}
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

// Read returns what a VM or VMI is pinned to. Keys are empty where the annotation is absent or malformed, or requests a repin.
func Read(object metav1.Object) v1alpha1.Pins {
	written := Parse(object)
	pins := v1alpha1.Pins{Instancetype: written.Instancetype.Name(), Preference: written.Preference.Name(), Configuration: written.Configuration.Name()}
	if written.Presets.Pinned() {
		pins.Presets = append([]string{}, written.Presets.Names...)
	}
	return pins
}

// Names returns every name in the annotation, also at keys of a newer release: after a downgrade, the collector must keep those revisions too.
// If legible is false, the annotation may name others.
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

// Write sets the annotation, or removes it if the pins are empty.
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

// RequestRepin changes the annotation of a VM so that admission pins the given keys to the current objects when the VM is written; all keys if
// none is given. It returns an error for an unknown key, and for a malformed annotation unless all keys are repinned.
func RequestRepin(vm metav1.Object, wanted ...string) error {
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

// RepinPending reports whether a VM still has the request of RequestRepin, or no pins: then no webhook has processed the request.
func RepinPending(vm metav1.Object) bool {
	w := Parse(vm)
	return vm.GetAnnotations()[v1alpha1.AnnotationPins] == "" ||
		w.Instancetype.RepinRequested() || w.Preference.RepinRequested() || w.Presets.RepinRequested() || w.Configuration.RepinRequested()
}

// annotate replaces the map of annotations instead of writing to it: the map may belong to a cache.
func annotate(object metav1.Object, text string) {
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationPins] = text
	object.SetAnnotations(annotations)
}
