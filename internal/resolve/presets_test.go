package resolve

import (
	"testing"

	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPresetsOfANamespace(t *testing.T) {
	preset := func(name, namespace string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstancePreset",
			"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": map[string]any{},
		}}
	}
	list, err := Resolver{Cached: objects.New(scheme(t), preset("here", namespace), preset("there", "other"))}.Presets(t.Context(), namespace)
	if err != nil || len(list) != 1 || list[0].Name != "here" {
		t.Errorf("got %v, %v; want only the preset of the namespace", list, err)
	}
}
