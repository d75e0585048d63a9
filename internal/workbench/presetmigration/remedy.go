package presetmigration

import (
	"context"
	"encoding/json"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/fieldpath"
	"github.com/kilnvm/kiln/pkg/preset"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Remedy is a change of a VM or VMI, with which the profiles give it the same guest as the presets.
type Remedy struct {
	// Exclude: set the annotation preset.Exclude in the metadata of the VMI, which excludes it from presets and profiles.
	Exclude bool `json:"exclude"`
	// Fields are the fields to set. The paths are paths of the VMI.
	Fields []RemedyField `json:"fields"`
}

// RemedyField is a field to set, so that it keeps its current value.
type RemedyField struct {
	Field string `json:"field"`
	// Value is JSON.
	Value string `json:"value"`
}

// findRemedy returns a change of the object with which stage 1 makes the same VMI; nil if there is no such change. It first tries to set the fields that would
// change to their current values. If one of them is unset, which no value can express, it tries to exclude the VMI and to set the fields that presets fill.
func (m *migration) findRemedy(ctx context.Context, object manifest.Object, before workbench.Reviewed, fields []Field) (*Remedy, error) {
	was, err := before.Explain(ctx)
	if err != nil {
		return nil, err
	}
	written, excluded := Remedy{Fields: []RemedyField{}}, Remedy{Exclude: true, Fields: []RemedyField{}}
	complete := true
	for _, f := range fields {
		written.Fields = append(written.Fields, RemedyField{f.Field, f.Before})
		complete = complete && f.Before != ""
	}
	for _, f := range was.Fields {
		if f.Origin.Kind == admit.FromPreset && f.Path != "" && preset.AreaOf(f.Path) != "" {
			excluded.Fields = append(excluded.Fields, RemedyField{f.Path, textOf(f.Value)})
		}
	}
	if complete && len(fields) > 0 {
		if same, err := m.remedyWorks(ctx, written, object, before); same || err != nil {
			return &written, err
		}
	}
	same, err := m.remedyWorks(ctx, excluded, object, before)
	if !same || err != nil {
		return nil, err
	}
	return &excluded, nil
}

// remedyWorks reports whether the object with the remedy has the same VMI with the profiles.
func (m *migration) remedyWorks(ctx context.Context, r Remedy, object manifest.Object, before workbench.Reviewed) (bool, error) {
	changed := object
	changed.Unstructured = object.DeepCopy()
	var at []string // the path of the VMI in the object
	if before.Guest.VM != nil {
		at = []string{"spec", "template"}
	}
	annotation := ""
	if r.Exclude {
		annotation = preset.Exclude
		if err := unstructured.SetNestedField(changed.Object, "true", append(at, "metadata", "annotations", preset.Exclude)...); err != nil {
			return false, nil // a review has refused annotations that are not a map
		}
	}
	for _, f := range r.Fields {
		path, ok := namesOf(f.Field)
		var value any
		if !ok || json.Unmarshal([]byte(f.Value), &value) != nil {
			return false, nil
		}
		if err := unstructured.SetNestedField(changed.Object, value, append(at[:len(at):len(at)], path...)...); err != nil {
			return false, nil
		}
	}
	after, err := m.reviewSide(ctx, 1, changed)
	if err != nil || !after.Verdict.Allowed() || after.Guest == nil {
		return false, err
	}
	return m.sameVMIs(before, after, annotation)
}

// namesOf returns the names of the fields in a path; false if the path contains an index of a list.
func namesOf(path string) (names []string, ok bool) {
	for _, step := range fieldpath.Parse(path) {
		if _, index := step.Index(); index {
			return nil, false
		}
		names = append(names, step.Text)
	}
	return names, true
}
