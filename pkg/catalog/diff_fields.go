package catalog

import (
	"cmp"
	"slices"
)

// fieldChanges returns the fields that differ between two versions of an object, in the order of their paths.
func fieldChanges(was, is *Object) (changes []FieldChange) {
	before, after := was.describedLeaves(), is.describedLeaves()
	old, new := make(map[string]string, len(before)), make(map[string]string, len(after))
	for _, f := range before {
		old[f.path] = f.text
	}
	for _, f := range after {
		new[f.path] = f.text
	}
	for _, f := range before {
		if text, has := new[f.path]; !has || text != f.text {
			changes = append(changes, FieldChange{f.path, shortValue(f.text), shortValue(text)})
		}
	}
	for _, f := range after {
		if _, had := old[f.path]; !had {
			changes = append(changes, FieldChange{Path: f.path, After: shortValue(f.text)})
		}
	}
	slices.SortStableFunc(changes, func(a, b FieldChange) int { return cmp.Compare(a.Path, b.Path) })
	return changes
}
