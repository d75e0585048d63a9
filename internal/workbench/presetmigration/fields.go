package presetmigration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/preset"
)

// differingFields returns the fields of two VMIs that differ, in the order of the API's types. Each has its origin, and the reason why the profile and the
// preset set it differently.
func (m *migration) differingFields(ctx context.Context, before, after workbench.Reviewed) ([]Field, error) {
	was, err := before.Explain(ctx)
	if err != nil {
		return nil, err
	}
	is, err := after.Explain(ctx)
	if err != nil {
		return nil, err
	}
	old, now := byPath(was.Fields), byPath(is.Fields)
	fields := []Field{}
	for _, f := range is.Fields {
		if o, found := old[f.Path]; !found || textOf(o.Value) != textOf(f.Value) {
			one := Field{Field: f.Path, After: textOf(f.Value), Origin: f.Origin.String(), Reason: reasonOf(f.Path, was)}
			if found {
				one.Before = textOf(o.Value)
			}
			fields = append(fields, one)
		}
	}
	for _, f := range was.Fields {
		if _, found := now[f.Path]; !found && !strings.HasPrefix(f.Path, "metadata.annotations["+preset.AppliedPrefix) {
			fields = append(fields, Field{Field: f.Path, Before: textOf(f.Value), Origin: f.Origin.String(), Reason: m.whyUnset(f.Path, after)})
		}
	}
	return fields, nil
}

// whyUnset returns why no profile fills a field that a preset fills; empty if the reason is not known.
func (m *migration) whyUnset(path string, after workbench.Reviewed) string {
	switch area := preset.AreaOf(path); {
	case area == "spec.domain.firmware" && !m.Firmware:
		return "the profile leaves the firmware out; --firmware keeps it, for VMs too"
	case after.Guest.Input.Set.Instancetype != nil && area != "":
		return "a profile does not fill what would conflict with the instancetype"
	}
	return ""
}

func byPath(facts []admit.Fact) map[string]admit.Fact {
	all := map[string]admit.Fact{}
	for _, f := range facts {
		all[f.Path] = f
	}
	return all
}

// textOf returns a value as JSON.
func textOf(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(raw)
}

// reasonOf returns why no preset filled a field that a profile fills: the VMI has a part of the area. was explains the VMI with the presets. The reason is
// empty for a field that differs because of another field, such as a default.
func reasonOf(path string, was admit.Explanation) string {
	area := preset.AreaOf(path)
	for _, s := range was.NotApplied {
		if s.Origin.Kind != admit.FromPreset || area == "" || s.Field != area {
			continue
		}
		return fmt.Sprintf("%s fills %s where the VMI has nothing of it, and the VMI has %s", s.Origin, area, strings.Join(partsOf(area, was.Fields), ", "))
	}
	return ""
}

// partsOf returns the fields of an area that neither presets nor defaults set, each with its origin.
func partsOf(area string, facts []admit.Fact) []string {
	var parts []string
	for _, f := range facts {
		if preset.AreaOf(f.Path) == area && !slices.Contains([]string{admit.FromPreset, admit.FromDefault}, f.Origin.Kind) {
			parts = append(parts, fmt.Sprintf("%s (%s)", f.Path, f.Origin))
		}
	}
	if len(parts) == 0 { // such as the firmware of a VM, which contains its identity
		parts = append(parts, area)
	}
	if more := len(parts) - 3; more > 0 {
		parts = append(parts[:3], fmt.Sprintf("%d more fields", more))
	}
	return parts
}
