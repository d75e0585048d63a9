package resolve

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// presetFor returns a preset that matches VMIs with label app=VALUE.
func presetFor(name, app, offset string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstancePreset", "metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": app}}, "domain": map[string]any{"ioThreadsPolicy": offset}},
	}}
}

// labelled returns a VM without instancetype whose VMI has label app=VALUE.
func labelled(app string, changes ...func(*v1.VirtualMachine)) *v1.VirtualMachine {
	return vm(append([]func(*v1.VirtualMachine){func(vm *v1.VirtualMachine) {
		vm.Spec.Instancetype = nil
		vm.Spec.Template.ObjectMeta = metav1.ObjectMeta{Labels: map[string]string{"app": app}}
	}}, changes...)...)
}

// configuredWith returns the defaults of a cluster with a CPU model, and their revision.
func configuredWith(t *testing.T, model string) (*config.Defaults, *unstructured.Unstructured) {
	t.Helper()
	cluster := config.Default()
	cluster.Defaults.CPUModel = model
	object, err := config.Snapshot(cluster.Defaults)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster.Defaults, stored(t, &unstructured.Unstructured{Object: object})
}

func TestPinsOfImplicits(t *testing.T) {
	was, is, second, others := presetFor("p", "web", "shared"), presetFor("p", "web", "auto"), presetFor("q", "db", "auto"), presetFor("r", "web", "auto")
	old, current, b, r := stored(t, was), stored(t, is), stored(t, second), stored(t, others)
	defaults, now := configuredWith(t, "Nehalem")
	_, before := configuredWith(t, "Haswell")
	pinsOf := func(configuration *unstructured.Unstructured, presets ...*unstructured.Unstructured) string {
		names := []string{}
		for _, p := range presets {
			names = append(names, p.GetName())
		}
		return `{"presets":["` + strings.Join(names, `","`) + `"],"configuration":"` + configuration.GetName() + `"}`
	}
	illegible := presetFor("x", "web", "auto")
	if err := unstructured.SetNestedField(illegible.Object, "no label!", "spec", "selector", "matchLabels", "app"); err != nil {
		t.Fatal(err)
	}
	kept := pinsOf(before, old)
	none := strings.Replace(pinsOf(before), `""`, "", 1)
	marked := stored(t, was)
	marked.SetAnnotations(map[string]string{v1alpha1.AnnotationUnusedSince: "2026-01-01T00:00:00Z"})
	for _, test := range []struct {
		name, why string
		vm, old   *v1.VirtualMachine
		objects   []*unstructured.Unstructured
		want      string // the pins
		drafts    int
		warnings  int
		refused   bool
		failed    string
	}{
		{name: "create", why: "all revisions exist", vm: labelled("web"), objects: []*unstructured.Unstructured{is, second, current, now},
			want: pinsOf(now, current)},
		{name: "create without presets", why: "that there are none takes no revision", vm: labelled("web"), objects: []*unstructured.Unstructured{now},
			want: strings.Replace(pinsOf(now), `""`, "", 1)},
		{name: "create before any other VM", why: "the controller writes the revisions", vm: labelled("web"), objects: []*unstructured.Unstructured{is}},
		{name: "create after an edit of the preset", why: "nothing is pinned rather than a part", vm: labelled("web"),
			objects: []*unstructured.Unstructured{is, old, now}},
		{name: "create after an edit of the configuration", why: "nothing is pinned rather than a part", vm: labelled("web"),
			objects: []*unstructured.Unstructured{is, current, before}},
		{name: "create while the revision is about to be deleted", why: "the mark must go, which is a write", vm: labelled("web"),
			objects: []*unstructured.Unstructured{was, marked, now}},
		{name: "create beside a preset that cannot be read", why: "validation names it", vm: labelled("web"),
			objects: []*unstructured.Unstructured{is, illegible, current, now}},
		{name: "restore of a part", why: "the rest is as for any new VM", vm: labelled("web", annotated(`{"presets":["`+old.GetName()+`"]}`)),
			objects: []*unstructured.Unstructured{is, old, now}, want: pinsOf(now, old)},
		{name: "restore", why: "revisions that exist here and fit are honoured", vm: labelled("web", annotated(kept)),
			objects: []*unstructured.Unstructured{is, old, before}, want: kept},
		{name: "restore of a marked one", why: "writing it takes the mark away", vm: labelled("web", annotated(kept)),
			objects: []*unstructured.Unstructured{marked, before}, want: kept, drafts: 1},
		{name: "restore of none", why: "no preset applied to the VMI that was backed up", vm: labelled("web", annotated(none)),
			objects: []*unstructured.Unstructured{is, before}, want: none},
		{name: "restore without revisions", why: "nothing to honour", vm: labelled("web", annotated(kept)), objects: []*unstructured.Unstructured{is}, warnings: 2},
		{name: "restore of another's preset", why: "it does not match this VMI", vm: labelled("db", annotated(kept)),
			objects: []*unstructured.Unstructured{old, before}, want: none, warnings: 1},
		{name: "first pin", why: "the controller's", vm: labelled("web", annotated(kept)), old: labelled("web"),
			objects: []*unstructured.Unstructured{is, old, before}, want: kept},
		{name: "update", why: "what was edited meanwhile is not for VMIs that were there", vm: labelled("web", annotated(kept)),
			old: labelled("web", annotated(kept)), objects: []*unstructured.Unstructured{is, old, current, before, now}, want: kept},
		{name: "update without pins", why: "kubectl replace keeps them", vm: labelled("web"), old: labelled("web", annotated(kept)),
			objects: []*unstructured.Unstructured{is, old, before}, want: kept},
		{name: "another label", why: "the pinned preset still matches",
			vm: labelled("web", annotated(kept), func(vm *v1.VirtualMachine) { vm.Spec.Template.ObjectMeta.Labels["x"] = "y" }), old: labelled("web", annotated(kept)),
			objects: []*unstructured.Unstructured{is, others, old, before}, want: kept},
		{name: "other preset by label", why: "the owner asked for it", vm: labelled("db", annotated(kept)), old: labelled("web", annotated(kept)),
			objects: []*unstructured.Unstructured{is, second, old, before}, want: pinsOf(before, b), drafts: 1},
		{name: "other preset by label, second call", why: "admission is called with its own answer", vm: labelled("db", annotated(pinsOf(before, b))),
			old: labelled("web", annotated(kept)), objects: []*unstructured.Unstructured{is, second, old, before}, want: pinsOf(before, b), drafts: 1},
		{name: "new pins asked for", why: "what there is now", vm: labelled("web", annotated("")), old: labelled("web", annotated(kept)),
			objects: []*unstructured.Unstructured{is, others, old, before}, want: pinsOf(now, current, r), drafts: 3},
		{name: "new pins, second call", why: "admission is called with its own answer", vm: labelled("web", annotated(pinsOf(now, current, r))),
			old: labelled("web", annotated(kept)), objects: []*unstructured.Unstructured{is, others, old, before}, want: pinsOf(now, current, r), drafts: 3},
		{name: "new pin asked for by key", why: "the presets stay", vm: labelled("web", annotated(strings.Replace(kept, before.GetName(), "", 1))),
			old: labelled("web", annotated(kept)), objects: []*unstructured.Unstructured{is, old, before, now}, want: pinsOf(now, old)},
		{name: "new presets asked for", why: "the configuration stays", vm: labelled("web", annotated(strings.Replace(kept, `["`+old.GetName()+`"]`, `""`, 1))),
			old: labelled("web", annotated(kept)), objects: []*unstructured.Unstructured{is, old, before, current}, want: pinsOf(before, current)},
		{name: "a request that nobody processed", why: "it pinned nothing, and the first pin is the controller's", vm: labelled("web"),
			old: labelled("web", annotated("")), objects: []*unstructured.Unstructured{is, old, before}},
		{name: "foreign", why: "a VMI must not change behind its owner's back", vm: labelled("web", annotated(pinsOf(before, r))),
			old: labelled("web", annotated(kept)), objects: []*unstructured.Unstructured{is, old, before, r}, refused: true},
		{name: "lost", why: "never another in its place", vm: labelled("web"), old: labelled("web", annotated(kept)),
			objects: []*unstructured.Unstructured{is, before}, failed: "no longer exists"},
		{name: "lost, unchanged since", why: "the preset still holds what the VMI was made from", vm: labelled("web"), old: labelled("web", annotated(kept)),
			objects: []*unstructured.Unstructured{was, before}, want: kept, drafts: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			resolution, err := Resolver{Cached: objects.New(scheme(t), test.objects...), Defaults: defaults, CompletesNew: true}.VM(t.Context(), test.vm, test.old)
			refused := ""
			if test.refused {
				refused = "metadata.annotations[kilnvm.io/pins]"
			}
			check(t, test.why, err, refused, test.failed)
			pin.Write(test.vm, resolution.Pins)
			if got := test.vm.Annotations[v1alpha1.AnnotationPins]; err == nil && got != test.want {
				t.Errorf("%s: pins %s, want %s", test.why, got, test.want)
			}
			if len(resolution.Drafts) != test.drafts || len(resolution.Warnings) != test.warnings {
				t.Errorf("%s: %d drafts, warnings %v; want %d, %d", test.why, len(resolution.Drafts), resolution.Warnings, test.drafts, test.warnings)
			}
		})
	}
}

// TestCompletePins: kinds without a pin are pinned to the current objects; the second call adds nothing.
func TestCompletePins(t *testing.T) {
	defaults, now := configuredWith(t, "Nehalem")
	p, q := presetFor("p", "web", "auto"), presetFor("q", "db", "auto")
	r := Resolver{Cached: objects.New(scheme(t), p, q), Defaults: defaults}
	pins, drafts, err := r.CompletePins(t.Context(), labelled("web"), v1alpha1.Pins{Instancetype: "s"})
	want := v1alpha1.Pins{Instancetype: "s", Presets: []string{stored(t, p).GetName()}, Configuration: now.GetName()}
	if diff := cmp.Diff(want, pins); err != nil || diff != "" || len(drafts) != 2 {
		t.Errorf("%d drafts, %v (-want +got):\n%s", len(drafts), err, diff)
	}
	again, drafts, err := r.CompletePins(t.Context(), labelled("db"), pins)
	if err != nil || !again.Equal(pins) || len(drafts) != 0 {
		t.Errorf("what is pinned changes to %+v, %d drafts, %v", again, len(drafts), err)
	}
	if pins, _, err = r.CompletePins(t.Context(), labelled("other"), v1alpha1.Pins{}); err != nil || pins.Presets == nil || len(pins.Presets) != 0 {
		t.Errorf("presets %#v, %v; want none, and that as known", pins.Presets, err)
	}
	broken := presetFor("p", "web", "auto")
	broken.Object["spec"].(map[string]any)["selector"] = map[string]any{"matchLabels": map[string]any{"-": "-"}}
	r = Resolver{Cached: objects.New(scheme(t), broken)}
	if _, _, err := r.CompletePins(t.Context(), labelled("web"), v1alpha1.Pins{}); !errors.As(err, new(*Refusal)) {
		t.Errorf("a selector that matches nothing known: %v, want the warning for the owner", err)
	}
}
