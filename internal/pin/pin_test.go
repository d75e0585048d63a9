package pin

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

func annotated(text string) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{}
	vm.Annotations = map[string]string{v1alpha1.AnnotationPins: text}
	return vm
}

func TestRead(t *testing.T) {
	many := `{"presets":["` + strings.Repeat(`p","`, 1000) + `p"]}`
	for _, test := range []struct {
		name, text string
		pins       v1alpha1.Pins
		names      []string
		malformed  bool
		unanswered bool
		illegible  bool
	}{
		{name: "everything", text: `{"instancetype":"i","preference":"p","presets":["a","b"],"configuration":"c"}`,
			pins:  v1alpha1.Pins{Instancetype: "i", Preference: "p", Presets: []string{"a", "b"}, Profiles: []string{}, Configuration: "c"},
			names: []string{"a", "b", "c", "i", "p"}},
		{name: "profiles", text: `{"presets":["a"],"profiles":["x"],"bases":["y"]}`,
			pins: v1alpha1.Pins{Presets: []string{"a"}, Profiles: []string{"x"}, Bases: []string{"y"}}, names: []string{"a", "x", "y"}},
		{name: "profiles alone", text: `{"profiles":[]}`, pins: v1alpha1.Pins{Profiles: []string{}}},
		{name: "a request for profiles", text: `{"presets":[],"profiles":"","bases":["y"]}`, pins: v1alpha1.Pins{Presets: []string{}},
			names: []string{"", "y"}, unanswered: true},
		{name: "bases of no profiles", text: `{"bases":["y"]}`, names: []string{"y"}},
		{name: "a base that is no list", text: `{"profiles":["x"],"bases":"y"}`, malformed: true, names: []string{"x", "y"}},
		{name: "more profiles than a VMI may have", text: strings.Replace(many, "presets", "profiles", 1), malformed: true,
			names: slices.Repeat([]string{"p"}, 1001)},
		{name: "more bases than a VMI may have", text: strings.Replace(many, `"presets"`, `"profiles":["p"],"bases"`, 1), malformed: true,
			names: slices.Repeat([]string{"p"}, 1002)},
		{name: "no presets", text: `{"presets":[]}`, pins: v1alpha1.Pins{Presets: []string{}, Profiles: []string{}}},
		{name: "presets of nobody", text: `{"presets":null}`, names: []string{""}},
		{name: "a request for everything", text: "", unanswered: true},
		{name: "a request for one", text: `{"instancetype":"i","presets":""}`, pins: v1alpha1.Pins{Instancetype: "i"}, names: []string{"", "i"}, unanswered: true},
		{name: "a request with spaces", text: `{"preference" : ""}`, names: []string{""}, unanswered: true},
		{name: "a key of a newer release", text: `{"futures":["x"],"instancetype":"i"}`, pins: v1alpha1.Pins{Instancetype: "i"}, names: []string{"i", "x"}},
		{name: "an object at a key", text: `{"instancetype":{"name":"i"}}`, names: []string{""}, malformed: true, illegible: true},
		{name: "no JSON", text: "{", malformed: true, illegible: true},
		{name: "more presets than a VM may match", text: many, malformed: true, names: slices.Repeat([]string{"p"}, 1001)},
	} {
		t.Run(test.name, func(t *testing.T) {
			vm := annotated(test.text)
			if diff := cmp.Diff(test.pins, Read(vm)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			names, legible := Names(vm)
			slices.Sort(names)
			if !slices.Equal(names, test.names) || legible == test.illegible {
				t.Errorf("names %q, legible %v; want %q, %v", names, legible, test.names, !test.illegible)
			}
			if got := Parse(vm).Malformed; got != test.malformed {
				t.Errorf("malformed: %v", got)
			}
			if got := RepinPending(vm); got != test.unanswered {
				t.Errorf("unanswered: %v", got)
			}
		})
	}
	if bare := (&v1.VirtualMachine{}); Parse(bare).Presets.Given || !RepinPending(bare) {
		t.Errorf("a VM without the annotation is pinned: %+v", Parse(bare))
	}
}

func TestWrite(t *testing.T) {
	object := annotated(`{"instancetype":"x"}`)
	shared := object.Annotations
	Write(object, v1alpha1.Pins{Preference: "p"})
	if got := object.Annotations[v1alpha1.AnnotationPins]; got != `{"preference":"p"}` {
		t.Errorf("got %s", got)
	}
	if shared[v1alpha1.AnnotationPins] != `{"instancetype":"x"}` {
		t.Error("the map of the original object was written into")
	}
	for _, test := range []struct {
		pins v1alpha1.Pins
		want string
	}{
		{v1alpha1.Pins{Presets: []string{"a"}, Profiles: []string{}}, `{"presets":["a"]}`},
		{v1alpha1.Pins{Presets: []string{}}, `{"presets":[]}`},
		{v1alpha1.Pins{Presets: []string{}, Profiles: []string{"x"}, Bases: []string{"y"}}, `{"presets":[],"profiles":["x"],"bases":["y"]}`},
		{v1alpha1.Pins{Profiles: []string{}}, `{"profiles":[]}`},
	} {
		Write(object, test.pins)
		if got := object.Annotations[v1alpha1.AnnotationPins]; got != test.want || !Read(object).Equal(test.pins) {
			t.Errorf("%+v is written as %s, and read as %+v; want %s", test.pins, got, Read(object), test.want)
		}
	}
	Write(object, v1alpha1.Pins{})
	if _, found := object.Annotations[v1alpha1.AnnotationPins]; found {
		t.Error("no pins left an annotation behind")
	}
}

func TestAsk(t *testing.T) {
	const both = `{"instancetype":"x","preference":"p"}`
	for _, test := range []struct {
		name, why, was string
		keys           []string
		want, failed   string
	}{
		{name: "all", why: "the empty value asks for new pins of everything", was: both},
		{name: "one", why: "the others stay", was: both, keys: []string{"instancetype"}, want: `{"instancetype":"","preference":"p"}`},
		{name: "profiles", why: "their bases go with them", was: `{"bases":["b"],"presets":["a"],"profiles":["x"]}`, keys: []string{"profiles"},
			want: `{"presets":["a"],"profiles":""}`},
		{name: "presets without profiles", why: "that there are none stays known while the presets are not", was: `{"presets":["a"]}`,
			keys: []string{"presets"}, want: `{"presets":"","profiles":[]}`},
		{name: "presets beside profiles", why: "the profiles stay", was: `{"presets":["a"],"profiles":["x"]}`, keys: []string{"presets"},
			want: `{"presets":"","profiles":["x"]}`},
		{name: "never pinned", why: "as good as a new one", keys: []string{"preference"}, want: `{"preference":""}`},
		{name: "misspelt", why: "the keys are told", was: both, keys: []string{"size"},
			failed: "use one of 'instancetype', 'preference', 'presets', 'profiles', 'configuration'"},
		{name: "unreadable", why: "what else it holds is not known", was: "{", keys: []string{"preference"}, failed: "repin everything"},
	} {
		t.Run(test.name, func(t *testing.T) {
			object := &v1.VirtualMachine{}
			if test.was != "" {
				object = annotated(test.was)
			}
			err := RequestRepin(object, test.keys...)
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
