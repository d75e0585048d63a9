// Package pin reads and writes annotation kilnvm.io/pins, which names the revisions that a VM or VMI is built from. It decides what a change of the annotation
// means. Tenants may write the annotation: it is hostile input, a request that admission grants or refuses.
package pin

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/preset"
	"github.com/kilnvm/kiln/pkg/profile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the annotation.
const (
	Instancetype  = "instancetype"
	Preference    = "preference"
	Presets       = "presets"
	Profiles      = "profiles"
	Configuration = "configuration"
)

// bases is the key of the profiles that other profiles extend. It is repinned only together with Profiles.
const bases = "bases"

var keys = []string{Instancetype, Preference, Presets, Profiles, Configuration}

// Entry is the value of one key. An absent key leaves the pin as it is, an empty string requests a repin.
type Entry struct {
	// Names are names of revisions: any number for presets and profiles, one for the other keys.
	Names []string
	// Bases are the revisions of the profiles that the pinned profiles extend, see v1alpha1.Pins.
	Bases []string
	// Given reports that the key is present.
	Given bool
}

// Each yields the names with false, and then the bases with true.
func (e Entry) Each() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for i, name := range slices.Concat(e.Names, e.Bases) {
			if !yield(name, i >= len(e.Names)) {
				return
			}
		}
	}
}

// RepinRequested reports whether the value is an empty string. An empty list requests no repin: it pins that there are no presets.
func (e Entry) RepinRequested() bool { return e.Given && len(e.Names) == 1 && e.Names[0] == "" }

// Pinned reports whether the entry names pins. An empty list pins that there are no presets.
func (e Entry) Pinned() bool { return e.Given && !e.RepinRequested() }

// Name returns the name of an entry with one name; empty if the entry has no name.
func (e Entry) Name() string { return strings.Join(e.Names, ", ") }

// Equal reports whether both entries have the same value.
func (e Entry) Equal(other Entry) bool {
	return e.Given == other.Given && slices.Equal(e.Names, other.Names) && slices.Equal(e.Bases, other.Bases)
}

// Written is the annotation as it was written, by Kiln or a tenant.
type Written struct {
	Instancetype, Preference, Presets, Profiles, Configuration Entry
	// Malformed reports that the value is not JSON of the right shape, or names more presets or profiles than a VMI may have.
	Malformed bool
}

// Parse reads the annotation of a VM or VMI. An empty annotation requests a repin of every key.
func Parse(object metav1.Object) Written {
	text, found := object.GetAnnotations()[v1alpha1.AnnotationPins]
	switch {
	case !found:
		return Written{}
	case text == "":
		return Written{Instancetype: repin, Preference: repin, Presets: repin, Profiles: repin, Configuration: repin}
	}
	var values struct {
		Instancetype, Preference, Configuration *string
		Presets, Profiles                       json.RawMessage
		Bases                                   []string
	}
	if json.Unmarshal([]byte(text), &values) != nil {
		return Written{Malformed: true}
	}
	written := Written{Instancetype: parseName(values.Instancetype), Preference: parseName(values.Preference), Configuration: parseName(values.Configuration)}
	var err, malformed error
	written.Presets, err = parseNames(values.Presets)
	written.Profiles, malformed = parseNames(values.Profiles)
	if written.Profiles.Pinned() {
		written.Profiles.Bases = values.Bases
	}
	if err != nil || malformed != nil || len(written.Presets.Names) > preset.MaxMatching || len(written.Profiles.Names)+len(values.Bases) > profile.MaxProfiles {
		return Written{Malformed: true}
	}
	return written
}

// repin is the value that requests a repin.
var repin = Entry{Names: []string{""}, Given: true}

// parseNames reads the value of a key that names any number of revisions.
func parseNames(value json.RawMessage) (entry Entry, err error) {
	switch string(value) {
	case "", "null":
		return Entry{}, nil
	case `""`:
		return repin, nil
	}
	err = json.Unmarshal(value, &entry.Names)
	entry.Given = true
	return entry, err
}

// OrNone returns the annotation with an empty list of profiles if it pins presets and has no key for profiles: both are pinned together, and a release without
// profiles pinned only presets.
func (w Written) OrNone() Written {
	if !w.Profiles.Given && w.Presets.Pinned() {
		w.Profiles = Entry{Names: []string{}, Given: true}
	}
	return w
}

func parseName(value *string) Entry {
	if value == nil {
		return Entry{}
	}
	return Entry{Names: []string{*value}, Given: true}
}

// Read returns what a VM or VMI is pinned to. A key is empty if the annotation is absent or malformed, or requests a repin.
func Read(object metav1.Object) v1alpha1.Pins {
	written := Parse(object).OrNone()
	pins := v1alpha1.Pins{Instancetype: written.Instancetype.Name(), Preference: written.Preference.Name(), Configuration: written.Configuration.Name()}
	if written.Presets.Pinned() {
		pins.Presets = append([]string{}, written.Presets.Names...)
	}
	if written.Profiles.Pinned() {
		pins.Profiles, pins.Bases = append([]string{}, written.Profiles.Names...), written.Profiles.Bases
	}
	return pins
}

// Names returns every name in the annotation, also at keys of a newer release: after a downgrade, the collector must keep those revisions, too. If legible is
// false, the annotation may contain other names.
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
	if pins.Presets != nil && len(pins.Profiles) == 0 {
		pins.Profiles = nil // has the same meaning, and is what releases without profiles wrote
	}
	text, err := json.Marshal(pins)
	if err != nil {
		panic(err) // strings always marshal
	}
	replacePins(object, string(text))
}

// RequestRepin changes the annotation of a VM so that admission pins the given keys to the current objects when the VM is written; all keys if
// none is given. It returns an error for an unknown key, and for a malformed annotation unless all keys are repinned.
func RequestRepin(vm metav1.Object, wanted ...string) error {
	if len(wanted) == 0 {
		replacePins(vm, "")
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
	if slices.Contains(wanted, Profiles) {
		delete(values, bases)
	} else if _, found := values[Profiles]; !found && slices.Contains(wanted, Presets) && Parse(vm).Presets.Pinned() {
		values[Profiles] = []string{} // OrNone would not add it to a repin of presets
	}
	text, err := json.Marshal(values)
	if err == nil {
		replacePins(vm, string(text))
	}
	return err
}

// RepinPending reports whether a VM still has the request of RequestRepin, or no pins: then no webhook has processed the request.
func RepinPending(vm metav1.Object) bool {
	w := Parse(vm)
	return vm.GetAnnotations()[v1alpha1.AnnotationPins] == "" ||
		w.Instancetype.RepinRequested() || w.Preference.RepinRequested() || w.Presets.RepinRequested() ||
		w.Profiles.RepinRequested() || w.Configuration.RepinRequested()
}

// replacePins sets the annotation with the pins. It replaces the map of annotations, which may belong to a cache.
func replacePins(object metav1.Object, text string) {
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationPins] = text
	object.SetAnnotations(annotations)
}
