package crdschema

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/fieldpath"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Mend returns a copy of an object without the values that the schema refuses, so that the rest can be judged. An unknown field whose name was probably
// misspelled gets its name. It returns false if the rest has another meaning without them: for mistakes outside of the spec, for elements of a list, whose
// removal would move the others, and for names, to which other fields refer. It also returns false for an object with too many elements, of which the rest is
// not judged.
func Mend(object *unstructured.Unstructured, mistakes field.ErrorList) (*unstructured.Unstructured, bool) {
	by, err := schemaOf(object.GroupVersionKind())
	if err != nil || !by.served {
		return nil, false
	}
	mended := object.DeepCopy()
	for _, mistake := range mistakes {
		if mistake.Type == field.ErrorTypeRequired { // there is nothing to remove
			continue
		}
		steps := fieldpath.Parse(mistake.Field)
		last := len(steps) - 1
		if last < 1 || steps[0].Text != "spec" || steps[last].Element || mistake.Type == field.ErrorTypeTooMany {
			return nil, false
		}
		parent, found := valueAt(mended.Object, steps[:last]).(map[string]any)
		value, has := parent[steps[last].Text]
		if !found || !has {
			return nil, false
		}
		delete(parent, steps[last].Text)
		meant := ""
		if mistake.Origin == RuleUnknownField {
			meant = likelyField(by.fields, mistake.Field)
		}
		_, taken := parent[meant]
		switch of := schemaAt(by.fields, fieldpath.Join(steps[:last])); {
		case meant != "" && !taken && of != nil && of.Properties[meant].Type != "":
			parent[meant] = value
		case steps[last].Text == "name":
			return nil, false
		}
	}
	// The value of a misspelled field may be wrong, too.
	if rest := by.findMistakes(mended); slices.ContainsFunc(rest, func(err *field.Error) bool { return err.Type != field.ErrorTypeRequired }) {
		return nil, false
	}
	return mended, true
}

// valueAt returns the value that steps lead to; nil if it does not exist.
func valueAt(value any, steps []fieldpath.Step) any {
	for _, step := range steps {
		switch of := value.(type) {
		case map[string]any:
			value = of[step.Text]
		case []any:
			index, is := step.Index()
			if !is || index >= len(of) {
				return nil
			}
			value = of[index]
		default:
			return nil
		}
	}
	return value
}
