package resolve

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/preset"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

func TestPinsOfProfiles(t *testing.T) {
	old, edited, db := profileOf(t, "p", threads("web", "shared")), profileOf(t, "p", threads("web", "auto")), profileOf(t, "q", threads("db", "auto"))
	base := profileOf(t, "cluster-base", "{template: {spec: {hostname: a}}}")
	elsewhere := profileOf(t, "cluster-far", "{selector: {}, namespaceSelector: {matchLabels: {team: b}}, template: {spec: {hostname: a}}}")
	child := profileOf(t, "r", "{selector: {matchLabels: {app: web}}, extends: [{kind: ClusterGuestProfile, name: cluster-base}]}")
	far := profileOf(t, "s", "{selector: {matchLabels: {app: web}}, extends: [{kind: ClusterGuestProfile, name: cluster-far}]}")
	orphan := profileOf(t, "o", "{selector: {matchLabels: {app: web}}, extends: [{name: nothing}]}")
	later := profileOf(t, "l", "{selector: {}, template: {spec: {domain: {ioThreadsPolicy: auto}}}}")
	onLater := profileOf(t, "m", "{selector: {matchLabels: {app: db}}, extends: [{name: l}]}")
	kept, none := pinsOfProfiles(t, old), pinsOfProfiles(t)
	all := func(live ...*unstructured.Unstructured) (objects []*unstructured.Unstructured) {
		for _, object := range []*unstructured.Unstructured{old, edited, db, base, elsewhere, child, far} {
			objects = append(objects, stored(t, object))
		}
		return append(objects, live...)
	}
	for _, test := range []struct {
		name, why string
		vm, old   *v1.VirtualMachine
		objects   []*unstructured.Unstructured
		want      string // the pins
		drafts    int
		warnings  int
		refused   string
		failed    string
	}{
		{name: "create", why: "all revisions exist", vm: labelled("web"), objects: all(old), want: kept},
		{name: "create with a base", why: "the base belongs to the profile", vm: labelled("web"), objects: all(base, child), want: pinsOfProfiles(t, base, child)},
		{name: "create, and the revision of the base is missing", why: "the controller writes it", vm: labelled("web"),
			objects: []*unstructured.Unstructured{base, child, stored(t, child)}},
		{name: "create beside a profile that cannot be applied", why: "the review names it", vm: labelled("web"), objects: all(old, orphan)},
		{name: "restore", why: "the revisions exist here and are of this VM", vm: labelled("web", annotated(kept)), objects: all(edited), want: kept},
		{name: "restore with a base", why: "the base belongs to the profile", vm: labelled("web", annotated(pinsOfProfiles(t, base, child))),
			objects: all(), want: pinsOfProfiles(t, base, child)},
		{name: "restore with a base of another namespace", why: "it fills nothing by itself", vm: labelled("web", annotated(pinsOfProfiles(t, far, nil, elsewhere))),
			objects: all(), want: pinsOfProfiles(t, far, nil, elsewhere)},
		{name: "restore of a VM that is older than profiles", why: "its guest stays as it was", vm: labelled("web", annotated(`{"presets":[]}`)),
			objects: all(old), want: none},
		{name: "restore without revisions", why: "the VM gets the current profiles", vm: labelled("web", annotated(kept)),
			objects: []*unstructured.Unstructured{edited}, want: pinsOfProfiles(t, edited), drafts: 1, warnings: 1},
		{name: "restore without a base", why: "a profile without its base is not pinned", vm: labelled("web", annotated(pinsOfProfiles(t, child))), objects: all(),
			want: none, warnings: 1},
		{name: "restore with a base of nothing", why: "it is not of this VM", vm: labelled("web", annotated(pinsOfProfiles(t, base, old))), objects: all(),
			want: none, warnings: 1},
		{name: "restore of another's profile", why: "it does not select this VMI", vm: labelled("other", annotated(kept)), objects: all(), want: none, warnings: 1},
		{name: "restore of what is no profile", why: "a pin may name any revision", vm: labelled("web", annotated(strings.Replace(kept, stored(t, old).GetName(),
			stored(t, presetFor("p", "web", "auto")).GetName(), 1))), objects: all(stored(t, presetFor("p", "web", "auto"))), want: none, warnings: 1},
		{name: "first pin", why: "the controller's", vm: labelled("web", annotated(kept)), old: labelled("web"), objects: all(old), want: kept},
		{name: "first pin by a controller without profiles", why: "it pins none", vm: labelled("web", annotated(`{"presets":[]}`)), old: labelled("web"),
			objects: all(old), want: none},
		{name: "update", why: "what was edited meanwhile is not for VMs that were there", vm: labelled("web", annotated(kept)),
			old: labelled("web", annotated(kept)), objects: all(edited), want: kept},
		{name: "update after the profile is gone", why: "the revision is enough", vm: labelled("web", annotated(kept)), old: labelled("web", annotated(kept)),
			objects: all(), want: kept},
		{name: "update beside a profile that cannot be applied", why: "the VM is not pinned to it", vm: labelled("web", annotated(kept)),
			old: labelled("web", annotated(kept)), objects: all(orphan), want: kept},
		{name: "update without pins", why: "kubectl replace keeps them", vm: labelled("web"), old: labelled("web", annotated(kept)),
			objects: all(edited), want: kept},
		{name: "update without the key", why: "an absent key leaves the pin as it is", vm: labelled("web", annotated(`{"presets":[]}`)),
			old: labelled("web", annotated(kept)), objects: all(edited), want: kept},
		{name: "another label", why: "the pinned profile still selects", objects: all(edited, later), want: kept,
			vm:  labelled("web", annotated(kept), func(vm *v1.VirtualMachine) { vm.Spec.Template.ObjectMeta.Labels["x"] = "y" }),
			old: labelled("web", annotated(kept))},
		{name: "other profile by label", why: "the owner asked for it", vm: labelled("db", annotated(kept)), old: labelled("web", annotated(kept)),
			objects: all(edited, db), want: pinsOfProfiles(t, db)},
		{name: "other profile by label, second call", why: "admission is called with its own answer", vm: labelled("db", annotated(pinsOfProfiles(t, db))),
			old: labelled("web", annotated(kept)), objects: all(edited, db), want: pinsOfProfiles(t, db)},
		{name: "other profile by label, on one that came later", why: "it is extended, and does not select this VM by itself",
			vm: labelled("db", annotated(none)), old: labelled("web", annotated(none)), objects: all(later, onLater),
			want: pinsOfProfiles(t, onLater, nil, later), drafts: 2},
		{name: "excluded", why: "this profile does not allow it", objects: all(edited), want: kept, old: labelled("web", annotated(kept)),
			vm: labelled("web", annotated(kept), func(vm *v1.VirtualMachine) {
				vm.Spec.Template.ObjectMeta.Annotations = map[string]string{preset.Exclude: "true"}
			})},
		{name: "its label counts as filled", why: "what the webhook would select of the VMI is pinned", objects: all(edited), want: none,
			old: labelled("web", annotated(kept)), vm: labelled("web", annotated(kept), func(vm *v1.VirtualMachine) {
				vm.Spec.Template.ObjectMeta.Annotations = map[string]string{v1alpha1.AnnotationProfileLabels: "app"}
			})},
		{name: "new pins asked for", why: "what there is now, with what it extends", vm: labelled("web", annotated(`{"presets":[],"profiles":""}`)),
			old: labelled("web", annotated(kept)), objects: all(edited, base, child), want: pinsOfProfiles(t, base, edited, child)},
		{name: "new pins, second call", why: "admission is called with its own answer", vm: labelled("web", annotated(pinsOfProfiles(t, base, edited, child))),
			old: labelled("web", annotated(kept)), objects: all(edited, base, child), want: pinsOfProfiles(t, base, edited, child)},
		{name: "new pins, and none is there", why: "the owner asked for the current profiles", vm: labelled("web", annotated(`{"presets":[],"profiles":""}`)),
			old: labelled("web", annotated(kept)), objects: all(), want: none},
		{name: "new pins of what cannot be applied", why: "the VM must not lose its profiles for that", objects: all(orphan),
			vm: labelled("web", annotated(`{"presets":[],"profiles":""}`)), old: labelled("web", annotated(kept)), refused: "spec.template.metadata.labels"},
		{name: "foreign", why: "a VMI must not change behind its owner's back", vm: labelled("web", annotated(pinsOfProfiles(t, edited))),
			old: labelled("web", annotated(kept)), objects: all(old), refused: "metadata.annotations[kilnvm.io/pins]"},
		{name: "taken away", why: "nor lose its profile by the annotation", vm: labelled("web", annotated(`{"presets":[],"profiles":[]}`)),
			old: labelled("web", annotated(kept)), objects: all(old), refused: "metadata.annotations[kilnvm.io/pins]"},
		{name: "made a base", why: "which fills nothing", vm: labelled("web", annotated(`{"profiles":[],"bases":["`+stored(t, old).GetName()+`"]}`)),
			old: labelled("web", annotated(kept)), objects: all(old), refused: "metadata.annotations[kilnvm.io/pins]"},
		{name: "lost", why: "never another in its place", vm: labelled("web"), old: labelled("web", annotated(kept)), objects: []*unstructured.Unstructured{edited},
			failed: stored(t, old).GetName()},
		{name: "lost, unchanged since", why: "the profile still holds what the VMI was made from", vm: labelled("web"), old: labelled("web", annotated(kept)),
			objects: []*unstructured.Unstructured{old}, want: kept, drafts: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			resolution, err := Resolver{Cached: objects.New(scheme(t), test.objects...), CompletesNew: true}.VM(t.Context(), test.vm, test.old)
			check(t, test.why, err, test.refused, test.failed)
			if err == nil && (resolution.Profiles != nil) != (test.want != "") {
				t.Errorf("%s: profiles %v of pins '%s'; nil means the current profiles", test.why, resolution.Profiles, test.want)
			}
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

// TestBaseThatIsSelectedLater: a pinned base begins to count by itself, at its pinned revision, when its namespace and then the labels of the VM select it.
func TestBaseThatIsSelectedLater(t *testing.T) {
	far := func(hostname string) *unstructured.Unstructured {
		return profileOf(t, "cluster-far", "{selector: {matchLabels: {app: db}}, namespaceSelector: {matchLabels: {team: b}}, "+
			"template: {spec: {hostname: "+hostname+"}}}")
	}
	child := profileOf(t, "r", "{selector: {}, extends: [{kind: ClusterGuestProfile, name: cluster-far}]}")
	kept := pinsOfProfiles(t, child, nil, far("pinned"))
	for team, want := range map[string]string{"a": kept, "b": pinsOfProfiles(t, far("pinned"), child)} {
		namespaced := manifest(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", labels: {team: "+team+"}}}")
		r := Resolver{Cached: objects.New(scheme(t), far("now"), child, namespaced, stored(t, far("pinned")), stored(t, child))}
		vm := labelled("db", annotated(kept))
		resolution, err := r.VM(t.Context(), vm, labelled("web", annotated(kept)))
		pin.Write(vm, resolution.Pins)
		if got := vm.Annotations[v1alpha1.AnnotationPins]; err != nil || got != want {
			t.Errorf("in a namespace of team %s: %s, %v; want %s", team, got, err, want)
		}
	}
}

// TestPinIsReadBesideWrongProfiles: a pinned revision that the cache lacks is read from the API server even if the current profiles are refused.
func TestPinIsReadBesideWrongProfiles(t *testing.T) {
	pinned := profileOf(t, "p", threads("web", "shared"))
	wrong := profileOf(t, "o", "{selector: {matchLabels: {app: web}}, extends: [{name: nothing}]}")
	r := Resolver{Cached: objects.New(scheme(t), wrong), Live: objects.New(scheme(t), stored(t, pinned))}
	kept := pinsOfProfiles(t, pinned)
	resolution, err := r.VM(t.Context(), labelled("web", annotated(kept)), labelled("web", annotated(kept)))
	if err != nil || len(resolution.Profiles) != 1 {
		t.Errorf("profiles %v, %v; want the pinned one", resolution.Profiles, err)
	}
}
