package validate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// ofTemplate is the metadata of a VM's template, as JSON.
func ofTemplate(metadata string) given {
	return embeddedRaw(`{"spec":{"template":{"metadata":` + metadata + `}}}`)
}

func embeddedRaw(text string) given {
	return func(testing.TB, config.Limits) field.ErrorList { return validate.EmbeddedMetadata([]byte(text)) }
}

func mistyped(fields ...string) []refusal { return refusals(field.ErrorTypeTypeInvalid, fields) }

var embeddedCases = []testCase{
	{
		why:   "a typing error, and a field of the VMI in the wrong place",
		rule:  "metadata/unknown-field",
		given: ofTemplate(`{"lables":{"a":"b"},"nodeSelector":{},"spec":{}}`),
		want:  forbidden("spec.template.metadata.lables", "spec.template.metadata.nodeSelector", "spec.template.metadata.spec"),
	},
	{
		why:   "fields of metadata, also those that only an API server writes",
		rule:  "metadata/unknown-field",
		given: ofTemplate(`{"labels":{"a":"b"},"annotations":{"c":"d"},"creationTimestamp":null,"generation":3,"managedFields":[]}`),
	},
	{
		why:   "a field of another case",
		rule:  "metadata/unknown-field",
		given: ofTemplate(`{"Labels":{"a":"b"}}`),
		want:  forbidden("spec.template.metadata.Labels"),
	},
	{
		why:   "the metadata of a data volume",
		rule:  "metadata/unknown-field",
		given: embeddedRaw(`{"spec":{"dataVolumeTemplates":[{"metadata":{"name":"a"}},{"metadata":{"storageClass":"fast"}}]}}`),
		want:  forbidden("spec.dataVolumeTemplates[1].metadata.storageClass"),
	},
	{
		why:   "labels and annotations that YAML reads as something else",
		rule:  "metadata/type",
		given: ofTemplate(`{"labels":{"version":1.0,"b":"c"},"annotations":{"d":true}}`),
		want:  mistyped("spec.template.metadata.labels[version]", "spec.template.metadata.annotations[d]"),
	},
	{
		why:   "a list in the place of labels, and a text that is not a time",
		rule:  "metadata/type",
		given: ofTemplate(`{"labels":["a"]}`),
		want:  mistyped("spec.template.metadata.labels"),
	},
	{
		why:   "a label without a value, which is empty",
		rule:  "metadata/type",
		given: ofTemplate(`{"labels":{"a":null}}`),
	},
	{
		why:   "no metadata",
		rule:  "metadata/type",
		given: ofTemplate(`null`),
	},
}

// TestAddedEmbeddedMetadata: an update answers for the unknown fields that it adds.
func TestAddedEmbeddedMetadata(t *testing.T) {
	t.Parallel()
	const old = `{"spec":{"template":{"metadata":{"lables":{}}}}}`
	if errs := validate.AddedEmbeddedMetadata([]byte(old), []byte(old)); len(errs) > 0 {
		t.Errorf("what was there before is refused: %v", errs)
	}
	errs := validate.AddedEmbeddedMetadata([]byte(strings.Replace(old, "lables", "lables\":{},\"anotations", 1)), []byte(old))
	if len(errs) != 1 || errs[0].Field != "spec.template.metadata.anotations" || !strings.Contains(errs[0].Detail, "did you mean 'annotations'?") {
		t.Errorf("%v, want the field that the update adds", errs)
	}
	for _, in := range []string{"", `"labels":{`} { // unknown fields, and labels that are no text
		many := `{"spec":{"template":{"metadata":{` + in + `"x":1`
		for i := range 5000 {
			many += fmt.Sprintf(`,"x%d":1`, i)
		}
		many += strings.Repeat("}", strings.Count(many, "{"))
		if errs := validate.EmbeddedMetadata([]byte(many)); len(errs) != 16 {
			t.Errorf("%d errors of one piece of metadata, want the first 16", len(errs))
		}
	}
}

// TestMisplacedFields: a field of the VMI in the metadata of its template is named where it belongs; in the metadata of a data volume it is not.
func TestMisplacedFields(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"nodeSelector": "'spec.template.spec.nodeSelector'", "spec": "'spec.template.spec'"} {
		inTemplate := validate.EmbeddedMetadata([]byte(`{"spec":{"template":{"metadata":{"` + name + `":{}}}}}`))
		if len(inTemplate) != 1 || !strings.Contains(inTemplate[0].Detail, want) {
			t.Errorf("%s: %v, want %s", name, inTemplate, want)
		}
		inVolume := validate.EmbeddedMetadata([]byte(`{"spec":{"dataVolumeTemplates":[{"metadata":{"` + name + `":{}}}]}}`))
		if len(inVolume) != 1 || strings.Contains(inVolume[0].Detail, "spec.template") {
			t.Errorf("%s of a data volume: %v", name, inVolume)
		}
	}
}

// TestMistyped: the path has its indices, and the message has the words of a manifest.
func TestMistyped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"name":"a","bootOrder":1},{"name":"b","bootOrder":-1}]}}}}}}`://
		"spec.template.spec.domain.devices.disks[1].bootOrder: Invalid value: -1: must be a whole number, 0 or more",
		`{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":"two"}}}}}}`://
		"spec.template.spec.domain.cpu.cores: Invalid value: \"two\": must be a whole number, 0 or more, not text",
		`{"spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"name":"a","bootOrder":1},{"name":"b","bootOrder":true}]}}}}}}`://
		"spec.template.spec.domain.devices.disks[1].bootOrder: Invalid value: true: must be a whole number, 0 or more, not true or false",
		`{"spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"name":"a","bootOrder":1},{"name":"b","bootOrder":[1]}]}}}}}}`://
		"spec.template.spec.domain.devices.disks[1].bootOrder: Invalid value: [1]: must be a whole number, 0 or more, not a list",
		`{"spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"name":"a","bootOrder":1},{"name":"b","bootOrder":{}}]}}}}}}`://
		"spec.template.spec.domain.devices.disks[1].bootOrder: Invalid value: {}: must be a whole number, 0 or more, not a map of fields",
		`{"spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"name":"a","bootOrder":1},{"name":"b","bootOrder":"x"}]}}}}}}`://
		"spec.template.spec.domain.devices.disks[1].bootOrder: Invalid value: \"x\": must be a whole number, 0 or more, not text",
		`{"spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"name":"a"},{"name":1}]}}}}}}`://
		"spec.template.spec.domain.devices.disks[1].name: Invalid value: 1: must be text",
		`{"metadata":{"labels":["aaaaaaaaaaaaaaaaaaaaaaaaaaaa"]}}`://
		`metadata.labels: Invalid value: ["aaaaaaaaaaaaaaaaaaaaaaaaaaaa"]: must be a map of fields, not a list`,
		`{"metadata":{"labels":["aaaaaaaaaaaaaaaaaaaaaaaaaaaab"]}}`://
		`metadata.labels: Invalid value: "[\"aaaaaaaaaaaaaaaaaaaaaaaaaaaab\"…": must be a map of fields, not a list`,
		`{"metadata":{"labels":["a"]}}`: `metadata.labels: Invalid value: ["a"]: must be a map of fields, not a list`,
	} {
		err := json.Unmarshal([]byte(text), &v1.VirtualMachine{})
		wrong := (*json.UnmarshalTypeError)(nil)
		if !errors.As(err, &wrong) {
			t.Fatalf("%s: %v", text, err)
		}
		if got := validate.Mistyped(wrong, []byte(text)).Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
