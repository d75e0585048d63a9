package resolve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/profile"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// profileOf returns a GuestProfile of the namespace, or with a name that begins with "cluster-" a ClusterGuestProfile. spec is YAML.
func profileOf(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	kind, at := v1alpha1.KindGuestProfile, ", namespace: "+namespace
	if strings.HasPrefix(name, "cluster-") {
		kind, at = v1alpha1.KindClusterGuestProfile, ""
	}
	return manifest(t, "{apiVersion: kilnvm.io/v1alpha1, kind: "+kind+", metadata: {name: "+name+at+"}, spec: "+spec+"}")
}

func manifest(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// pinsOfProfiles returns the annotation of a VM without presets. Objects after a nil are bases.
func pinsOfProfiles(t *testing.T, all ...*unstructured.Unstructured) string {
	t.Helper()
	pins := v1alpha1.Pins{Presets: []string{}, Profiles: []string{}}
	list := &pins.Profiles
	for _, object := range all {
		if object == nil {
			list = &pins.Bases
			continue
		}
		*list = append(*list, stored(t, object).GetName())
	}
	vm := &v1.VirtualMachine{}
	pin.Write(vm, pins)
	return vm.Annotations[v1alpha1.AnnotationPins]
}

// threads is the spec of a profile that fills ioThreadsPolicy of VMIs with label app=VALUE.
func threads(app, policy string) string {
	return "{selector: {matchLabels: {app: " + app + "}}, template: {spec: {domain: {ioThreadsPolicy: " + policy + "}}}}"
}

// policies returns what the profiles of an input fill into the VMI of a VM.
func policies(t *testing.T, in admit.Input, vm *v1.VirtualMachine) string {
	t.Helper()
	vmi := admit.Instance(vm)
	if errs := profile.Fill(in.Profiles, vmi, profile.Observer{}); len(errs) > 0 {
		return errs.ToAggregate().Error()
	}
	threads := ""
	if p := vmi.Spec.Domain.IOThreadsPolicy; p != nil {
		threads = string(*p)
	}
	return fmt.Sprintf("%s %s", vmi.Spec.Hostname, threads)
}

// TestNamespacesOfProfiles: a ClusterGuestProfile fills VMIs of the namespaces that it selects. A pin decides by itself, whatever the labels are now.
func TestNamespacesOfProfiles(t *testing.T) {
	far := profileOf(t, "cluster-far", "{selector: {}, priority: 9, namespaceSelector: {matchLabels: {team: b}}, template: {spec: {hostname: base, "+
		"domain: {ioThreadsPolicy: auto}}}}")
	child := profileOf(t, "child", "{selector: {}, extends: [{kind: ClusterGuestProfile, name: cluster-far}], template: {spec: {hostname: child}}}")
	ours := func(team string) *unstructured.Unstructured {
		return manifest(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", labels: {team: "+team+"}}}")
	}
	for _, test := range []struct {
		name, why, want string
		objects         []*unstructured.Unstructured
	}{
		{"selected", "its label matches", "base auto", []*unstructured.Unstructured{far, ours("b")}},
		{"not selected", "its label does not", " ", []*unstructured.Unstructured{far, ours("a")}},
		{"of files", "a namespace that no file describes has only its name as a label", " ", []*unstructured.Unstructured{far}},
		{"extended from elsewhere", "the base fills what the profile leaves, and does not count by itself", "child auto",
			[]*unstructured.Unstructured{far, child, ours("a")}},
		{"extended and selected", "the base has the higher priority", "base auto", []*unstructured.Unstructured{far, child, ours("b")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, vm := Resolver{Cached: objects.New(scheme(t), test.objects...), Memo: NewMemo()}, labelled("web")
			in, err := r.Input(t.Context(), namespace, Resolution{}, config.Default())
			if got := policies(t, in, vm); err != nil || got != test.want {
				t.Errorf("%s: a new VM gets '%s', %v; want '%s'", test.why, got, err, test.want)
			}
			pins, drafts, err := r.CompletePins(t.Context(), vm, v1alpha1.Pins{})
			if err != nil {
				t.Fatal(err)
			}
			var revisions []*unstructured.Unstructured
			for _, draft := range drafts {
				revisions = append(revisions, untyped(t, draft.Object()))
			}
			for _, team := range []string{"a", "b"} {
				guest := admit.Instance(vm)
				pin.Write(guest, pins)
				later := Resolver{Cached: objects.New(scheme(t), append(revisions, far, child, ours(team))...)}
				resolution, err := later.VMI(t.Context(), guest)
				if err != nil {
					t.Fatal(err)
				}
				if in, err = later.Input(t.Context(), namespace, resolution, config.Default()); err != nil {
					t.Fatal(err)
				}
				if got := policies(t, in, vm); got != test.want {
					t.Errorf("%s: pinned, and in a namespace of team %s later, it gets '%s', want '%s'", test.why, team, got, test.want)
				}
			}
		})
	}
}

// requests notes what is read one by one.
type requests struct {
	client.Reader
	gets []string
}

func (r *requests) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	r.gets = append(r.gets, object.GetObjectKind().GroupVersionKind().Kind+" "+key.Name)
	return r.Reader.Get(ctx, key, object, options...)
}

// TestProfilesAreReadOnce: each version of a profile is parsed once, and the labels of the namespace are read only if a profile asks for them.
func TestProfilesAreReadOnce(t *testing.T) {
	versioned := func(object *unstructured.Unstructured) *unstructured.Unstructured {
		object.SetUID("u")
		object.SetResourceVersion(object.GetName())
		return object
	}
	p, q := versioned(profileOf(t, "p", threads("web", "shared"))), versioned(profileOf(t, "cluster-q", threads("db", "auto")))
	cached := &requests{Reader: objects.New(scheme(t), p, q)}
	live := &requests{Reader: objects.New(scheme(t))}
	r := Resolver{Cached: cached, Live: live, Memo: NewMemo()}
	first, err := r.Profiles(t.Context(), namespace)
	second, again := r.Profiles(t.Context(), namespace)
	if err != nil || again != nil || len(first) != 2 || !slices.Equal(first, second) {
		t.Errorf("profiles %v, %v, then %v, %v; want the same two", first, err, second, again)
	}
	if other, err := r.Profiles(t.Context(), "other"); err != nil || len(other) != 1 || other[0] != first[1] {
		t.Errorf("another namespace has %v, %v; want the ClusterGuestProfile, parsed already", other, err)
	}
	if len(cached.gets)+len(live.gets) > 0 {
		t.Errorf("requests %v %v; want none", cached.gets, live.gets)
	}
	edited := profileOf(t, "p", threads("web", "auto"))
	edited.SetUID("u")
	edited.SetResourceVersion("2")
	r.Cached = objects.New(scheme(t), edited, q)
	if third, err := r.Profiles(t.Context(), namespace); err != nil || third[0] == first[0] || third[1] != first[1] {
		t.Errorf("after an edit: %v, %v", third, err)
	}
}

// TestDraftsAreDecodedOnce: as long as the revision of a profile is not stored, each new VM has its draft. All namespaces share the decoded object, and each
// namespace has a draft of its own.
func TestDraftsAreDecodedOnce(t *testing.T) {
	p := profileOf(t, "cluster-p", threads("web", "shared"))
	r := Resolver{Cached: objects.New(scheme(t), p), Memo: NewMemo()}
	pinned := func(namespace string, object *unstructured.Unstructured) *pinObject {
		found, err := r.reader().snapshotOf(t.Context(), profiles, namespace, object)
		if err != nil || found.draft == nil || found.draft.Namespace != namespace {
			t.Fatalf("%+v, %v; want a draft for namespace '%s'", found, err, namespace)
		}
		return found
	}
	first, second := pinned("one", p), pinned("other", p)
	if first.profile != second.profile {
		t.Error("the draft was decoded again")
	}
	if edited := pinned("one", profileOf(t, "cluster-p", threads("web", "auto"))); edited.profile == first.profile {
		t.Error("an edited profile has what the other decoded to")
	}
}

// TestUnreadableProfiles: a stored profile that cannot be read refuses the VMs that it may select, except VMs that are pinned. More profiles than a review
// may read refuse them, too.
func TestUnreadableProfiles(t *testing.T) {
	broken := profileOf(t, "broken", "{selector: {}, template: {spec: {domain: 7}}}")
	r := Resolver{Cached: objects.New(scheme(t), broken)}
	_, err := r.Input(t.Context(), namespace, Resolution{}, config.Default())
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Errors[0].Field != "metadata.labels" || !strings.Contains(err.Error(), "GuestProfile 'broken'") {
		t.Errorf("a bare VMI: %v", err)
	}
	if _, _, err = r.CompletePins(t.Context(), labelled("web"), v1alpha1.Pins{}); !errors.As(err, &refusal) ||
		refusal.Errors[0].Field != "spec.template.metadata.labels" {
		t.Errorf("a VM: %v", err)
	}
	if _, err = r.Input(t.Context(), "other", Resolution{}, config.Default()); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	resolution, err := r.VM(t.Context(), labelled("web", annotated(`{"presets":[]}`)), labelled("web", annotated(`{"presets":[]}`)))
	if _, inputErr := r.Input(t.Context(), namespace, resolution, config.Default()); err != nil || inputErr != nil {
		t.Errorf("a pinned VM: %v, %v", err, inputErr)
	}
	var many []*unstructured.Unstructured
	for i := range maxProfiles + 1 {
		many = append(many, profileOf(t, fmt.Sprintf("p%d", i), "{}"))
	}
	if found, err := (Resolver{Cached: objects.New(scheme(t), many[1:]...)}).Profiles(t.Context(), namespace); err != nil || len(found) != maxProfiles {
		t.Errorf("as many as are read: %d, %v", len(found), err)
	}
	if _, err := (Resolver{Cached: objects.New(scheme(t), many...)}).Profiles(t.Context(), namespace); !errors.As(err, &refusal) ||
		!strings.Contains(err.Error(), "257 GuestProfiles, at most 256") {
		t.Errorf("one more: %v", err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Resolver{Cached: objects.New(scheme(t), profileOf(t, "p", "{}"))}).Profiles(stopped, namespace); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that has ended: %v", err)
	}
}

// TestVMIOfLostProfiles: a VMI whose profile is gone is refused by the name of the revision; so is one that names a base that is gone.
func TestVMIOfLostProfiles(t *testing.T) {
	p := profileOf(t, "p", threads("web", "shared"))
	for _, pins := range []string{pinsOfProfiles(t, p), `{"profiles":[],"bases":["` + stored(t, p).GetName() + `"]}`} {
		vmi := &v1.VirtualMachineInstance{}
		vmi.Namespace, vmi.Annotations = namespace, map[string]string{v1alpha1.AnnotationPins: pins}
		_, err := Resolver{Cached: objects.New(scheme(t), p)}.VMI(t.Context(), vmi)
		if err == nil || !strings.Contains(err.Error(), stored(t, p).GetName()) || !strings.Contains(err.Error(), "profiles") {
			t.Errorf("%s: %v", pins, err)
		}
	}
}
