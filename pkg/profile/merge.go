package profile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/message"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Disagreement is a field that two profiles of one priority set to different values.
type Disagreement struct {
	First, Second Source
	// Field is a path in the VMI, with the names of elements.
	Field string
	// Values are JSON, shortened if they are long.
	Values [2]string
}

// String returns the text of the error.
func (d Disagreement) String() string {
	return fmt.Sprintf("%s and %s have the same priority and disagree on %s: %s and %s; change the labels so that one of them selects the VMI, "+
		"or give one of them a higher priority", d.First, d.Second, d.Field, d.Values[0], d.Values[1])
}

// merged is the result of laying the settings of profiles over each other: the first that sets a field counts.
type merged struct {
	settings []plannedSetting
	taken    map[string]plannedSetting
	// picks are the members that were picked of each choice.
	picks map[string]pickedMember
	// disagreements are between different profiles of the same priority. A choice is named once.
	disagreements []Disagreement
	named         map[string]bool
}

type pickedMember struct {
	member string
	from   Source
}

// mergeLayers lays the settings of layers over each other, in their order.
func mergeLayers(layers []layer) merged {
	most := 0
	for _, l := range layers {
		most += len(l.settings)
	}
	m := merged{settings: make([]plannedSetting, 0, most), taken: make(map[string]plannedSetting, most),
		picks: map[string]pickedMember{}, named: map[string]bool{}}
	for _, l := range layers {
		for i := range l.settings {
			m.addSetting(plannedSetting{&l.settings[i], l.from})
		}
	}
	return m
}

// layer is what one source sets.
type layer struct {
	from     Source
	settings []setting
}

func (m *merged) addSetting(s plannedSetting) {
	if was, found := m.taken[s.path]; found {
		if was.setting == s.setting { // of one base of two profiles
			return
		}
		if !s.exists && !was.exists && haveSamePriority(was.from, s.from) && !sameValue(was.value, s.value) {
			m.addDisagreement(Disagreement{was.from, s.from, s.path, [2]string{printValue(was.value), printValue(s.value)}})
		}
		return
	}
	for _, p := range s.picks {
		if was, found := m.picks[p.of]; found && was.member != p.member {
			if haveSamePriority(was.from, s.from) {
				m.addDisagreement(Disagreement{was.from, s.from, p.field, [2]string{was.member, p.member}})
			}
			return
		}
	}
	for _, p := range s.picks {
		if _, found := m.picks[p.of]; !found {
			m.picks[p.of] = pickedMember{p.member, s.from}
		}
	}
	m.taken[s.path] = s
	m.settings = append(m.settings, s)
}

// haveSamePriority reports whether neither of two profiles decides.
func haveSamePriority(a, b Source) bool {
	return a.Profile != b.Profile && a.Spec.Priority == b.Spec.Priority
}

// addDisagreement notes a field once for each pair of profiles.
func (m *merged) addDisagreement(d Disagreement) {
	key := d.First.Profile.String() + " " + d.Second.Profile.String() + " " + d.Field
	if !m.named[key] && len(m.disagreements) < maxErrors {
		m.named[key] = true
		m.disagreements = append(m.disagreements, d)
	}
}

// sameValue compares quantities by amount.
func sameValue(a, b reflect.Value) bool {
	if a.Kind() == reflect.String || a.Kind() == reflect.Bool {
		return a.Equal(b)
	}
	return equality.Semantic.DeepEqual(a.Interface(), b.Interface())
}

func printValue(v reflect.Value) string { return message.Value(v.Interface()) }

// Disagreements returns the fields that selected profiles of the same priority set to different values. Bases are looked up in all.
func Disagreements(selected, all []*Profile) []Disagreement {
	layers, _ := layersOf(sortByPriority(selected), all)
	return mergeLayers(layers).disagreements
}

func disagreementErrors(found []Disagreement) (errs field.ErrorList) {
	for _, d := range found {
		errs = append(errs, field.Invalid(labelsPath, d.First.Name+", "+d.Second.Name, d.String()).WithOrigin("profile/conflict"))
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Detail, b.Detail) })
	return errs
}
