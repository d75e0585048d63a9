package resolve

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWritePins(t *testing.T) {
	object := vm(annotated(`{"instancetype":"x"}`))
	shared := object.Annotations
	WritePins(object, v1alpha1.Pins{Preference: "p"})
	if got := object.Annotations[v1alpha1.AnnotationPins]; got != `{"preference":"p"}` {
		t.Errorf("got %s", got)
	}
	if shared[v1alpha1.AnnotationPins] != `{"instancetype":"x"}` {
		t.Error("the map of the original object was written into")
	}
	WritePins(object, v1alpha1.Pins{})
	if _, found := object.Annotations[v1alpha1.AnnotationPins]; found {
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
	list, err := Resolver{Cached: objects.New(scheme(t), preset("here", namespace), preset("there", "other"))}.Presets(t.Context(), namespace)
	if err != nil || len(list) != 1 || list[0].Name != "here" {
		t.Errorf("got %v, %v; want the preset of the namespace alone", list, err)
	}
}

func TestRepin(t *testing.T) {
	const both = `{"instancetype":"x","preference":"p"}`
	for _, test := range []struct {
		name, why, was string
		keys           []string
		want, failed   string
	}{
		{name: "all", why: "the empty value asks for new pins of everything", was: both},
		{name: "one", why: "the others stay", was: both, keys: []string{"instancetype"}, want: `{"instancetype":"","preference":"p"}`},
		{name: "never pinned", why: "as good as a new one", keys: []string{"preference"}, want: `{"preference":""}`},
		{name: "misspelt", why: "the keys are told", was: both, keys: []string{"size"}, failed: "use one of 'instancetype', 'preference', 'presets', 'configuration'"},
		{name: "unreadable", why: "what else it holds is not known", was: "{", keys: []string{"preference"}, failed: "pin everything anew"},
	} {
		t.Run(test.name, func(t *testing.T) {
			object := vm()
			if test.was != "" {
				object = vm(annotated(test.was))
			}
			err := Repin(object, test.keys...)
			if test.failed != "" {
				if err == nil || !strings.Contains(err.Error(), test.failed) {
					t.Errorf("%s: %v, want '%s'", test.why, err, test.failed)
				}
				return
			}
			if got, found := object.Annotations[v1alpha1.AnnotationPins]; err != nil || !found || got != test.want {
				t.Errorf("%s: '%s', %v; want '%s'", test.why, got, err, test.want)
			}
		})
	}
}
