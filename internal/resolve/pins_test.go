package resolve

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/pipeline"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWritePins(t *testing.T) {
	object := vm(annotated(`{"instancetype":"x"}`))
	shared := object.Annotations
	WritePins(object, pipeline.Pins{Preference: "p"})
	if got := object.Annotations[pipeline.AnnotationPins]; got != `{"preference":"p"}` {
		t.Errorf("got %s", got)
	}
	if shared[pipeline.AnnotationPins] != `{"instancetype":"x"}` {
		t.Error("the map of the original object was written into")
	}
	WritePins(object, pipeline.Pins{})
	if _, found := object.Annotations[pipeline.AnnotationPins]; found {
		t.Error("no pins left an annotation behind")
	}
}

func TestPresetsOfANamespace(t *testing.T) {
	preset := func(name, namespace string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstancePreset",
			"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": map[string]any{},
		}}
	}
	list, err := Resolver{Cached: NewFiles(scheme(t), preset("here", namespace), preset("there", "other"))}.Presets(t.Context(), namespace)
	if err != nil || len(list) != 1 || list[0].Name != "here" {
		t.Errorf("got %v, %v; want the preset of the namespace alone", list, err)
	}
}
