package resolve

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

const namespace = "team"

func TestVM(t *testing.T) {
	was, is, other, own := size("s", "1Gi", ""), size("s", "2Gi", ""), size("other", "1Gi", ""), size("s", "3Gi", namespace)
	old, current, foreign := stored(t, was), stored(t, is), stored(t, other)
	oldName, name, foreignName, ownName := old.GetName(), current.GetName(), foreign.GetName(), stored(t, own).GetName()
	kubevirt := stored(t, was)
	kubevirt.SetName("a-s-v1beta1-uid-1")
	kubevirt.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "a", UID: "x", Controller: new(true)}})
	marked := stored(t, is)
	marked.SetAnnotations(map[string]string{v1alpha1.AnnotationUnusedSince: "2026-01-01T00:00:00Z"})
	forged := stored(t, was)
	forged.SetName(name)
	recorded := func(revision string) func(*v1.VirtualMachine) {
		return func(vm *v1.VirtualMachine) {
			vm.Status.InstancetypeRef = &v1.InstancetypeStatusRef{Name: "s", Kind: "virtualmachineclusterinstancetype",
				ControllerRevisionRef: &v1.ControllerRevisionRef{Name: revision}}
		}
	}
	for _, test := range []struct {
		name, why string
		vm, old   *v1.VirtualMachine
		cached    []*unstructured.Unstructured
		live      []*unstructured.Unstructured
		want      string // name of the pinned revision
		draft     bool
		warning   string
		refused   string // path of the refused field
		failed    string // part of an error that is not the user's
		requests  int
	}{
		{name: "first of an instancetype", why: "the snapshot must exist before the VM does", vm: vm(), cached: []*unstructured.Unstructured{is}, want: name,
			draft: true},
		{name: "second of an instancetype", why: "all VMs of an instancetype share a revision, and nothing leaves the process", vm: vm(),
			cached: []*unstructured.Unstructured{is, current}, want: name},
		{name: "cache lags", why: "an instancetype that was created a moment ago is not unknown", vm: vm(), live: []*unstructured.Unstructured{is}, want: name,
			draft:    true,
			requests: 1},
		{name: "unknown", why: "the instancetype may be created later", vm: vm(), warning: "VirtualMachineClusterInstancetype 's' does not exist", requests: 1},
		{name: "unknown in a namespace", why: "the warning says where it was looked for",
			vm: vm(matcher(v1.InstancetypeMatcher{Name: "s", Kind: "virtualmachineinstancetypes"})), cached: []*unstructured.Unstructured{is},
			warning: "VirtualMachineInstancetype 's' in namespace 'team' does not exist", requests: 1},
		{name: "namespaced kind in odd case", why: "kinds are singular or plural names in any case",
			vm: vm(matcher(v1.InstancetypeMatcher{Name: "s", Kind: "VirtualMachineINSTANCETYPES"})), cached: []*unstructured.Unstructured{is, own}, want: ownName,
			draft: true},
		{name: "unknown kind", why: "nothing to look for: validation refuses it", vm: vm(matcher(v1.InstancetypeMatcher{Name: "s", Kind: "flavor"}))},
		{name: "no name", why: "nothing to look for", vm: vm(matcher(v1.InstancetypeMatcher{})), refused: "spec.instancetype.name"},
		{name: "inference", why: "never ignored silently", vm: vm(matcher(v1.InstancetypeMatcher{InferFromVolume: "root"})),
			refused: "spec.instancetype.inferFromVolume"},
		{name: "revisionName", why: "revisionName takes precedence over the pin",
			vm:     vm(pinned(name), matcher(v1.InstancetypeMatcher{Name: "s", RevisionName: oldName})),
			cached: []*unstructured.Unstructured{is, old, current}, want: oldName},
		{name: "revisionName of another", why: "a revision of another instancetype is a mistake",
			vm: vm(matcher(v1.InstancetypeMatcher{Name: "s", RevisionName: foreignName})), cached: []*unstructured.Unstructured{foreign},
			refused: "spec.instancetype.revisionName"},
		{name: "revisionName unknown", why: "revisionName asks for this revision, so no other takes its place",
			vm: vm(matcher(v1.InstancetypeMatcher{Name: "s", RevisionName: "gone"})), refused: "spec.instancetype.revisionName", requests: 1},
		{name: "revisionName that no object has", why: "client-go fails without a call; the user gets the refusal and not a 500",
			vm: vm(matcher(v1.InstancetypeMatcher{Name: "s", RevisionName: "other/secret"})), refused: "spec.instancetype.revisionName"},
		{name: "name that no object has", why: "client-go fails without a call; the user gets the refusal and not a 500, and waits for nothing",
			vm: vm(matcher(v1.InstancetypeMatcher{Name: "other/s"})), refused: "spec.instancetype.name"},
		{name: "name that no object has, stored before", why: "a VM that exists can be changed",
			vm: vm(matcher(v1.InstancetypeMatcher{Name: "S"})), old: vm(matcher(v1.InstancetypeMatcher{Name: "S"})),
			warning: "VirtualMachineClusterInstancetype 'S' does not exist", requests: 1},
		{name: "name longer than names are", why: "it would not fit into a request", vm: vm(matcher(v1.InstancetypeMatcher{Name: strings.Repeat("s", 254)})),
			refused: "spec.instancetype.name"},
		{name: "revisionName unknown, later", why: "a revisionName that an update adds must exist too",
			vm:  vm(matcher(v1.InstancetypeMatcher{Name: "s", RevisionName: "gone"})),
			old: vm(), cached: []*unstructured.Unstructured{is}, refused: "spec.instancetype.revisionName", requests: 1},
		{name: "revisionName, cache lags", why: "the backup tool restored the revision a moment ago",
			vm: vm(matcher(v1.InstancetypeMatcher{Name: "s", RevisionName: oldName})), live: []*unstructured.Unstructured{old}, want: oldName, requests: 1},
		{name: "revisionName that has gone", why: "updates of the VM are admitted, and it cannot start",
			vm: vm(matcher(v1.InstancetypeMatcher{Name: "s", RevisionName: "gone"})), old: vm(matcher(v1.InstancetypeMatcher{Name: "s", RevisionName: "gone"})),
			warning: "revision 'gone' does not exist", requests: 1},
		{name: "restore", why: "a pin on create is honoured when its revision is here", vm: vm(pinned(oldName)), cached: []*unstructured.Unstructured{is, old},
			want: oldName},
		{name: "restore, cache lags", why: "the backup tool restored the revision a moment ago", vm: vm(pinned(oldName)), cached: []*unstructured.Unstructured{is},
			live: []*unstructured.Unstructured{old}, want: oldName, requests: 1},
		{name: "restore without revision", why: "nothing to honour", vm: vm(pinned(oldName)), cached: []*unstructured.Unstructured{is, current}, want: name,
			warning: "was dropped", requests: 1},
		{name: "restore of another instancetype", why: "the pin does not fit the matcher", vm: vm(pinned(foreignName)),
			cached: []*unstructured.Unstructured{is, current, foreign}, want: name, warning: "was dropped"},
		{name: "restore unreadable", why: "a broken annotation must not keep a backup from being restored", vm: vm(annotated("{")),
			cached: []*unstructured.Unstructured{is, current}, want: name, warning: "cannot be read"},
		{name: "restore forged", why: "the content of the revision does not have the hash in its name", vm: vm(pinned(name)),
			cached: []*unstructured.Unstructured{forged, was}, want: oldName, draft: true, warning: "was dropped"},
		{name: "forged in the place of the current one", why: "a new VM is not pinned to content that has another hash than its name says", vm: vm(),
			cached: []*unstructured.Unstructured{forged, is},
			failed: "cannot be trusted"},
		{name: "forged under a VM", why: "an exchanged revision is an error and not the VM's new instancetype", vm: vm(), old: vm(pinned(name)),
			cached: []*unstructured.Unstructured{forged, is}, failed: "cannot be trusted"},
		{name: "marked", why: "the collector is about to remove it: a miss, whose writing takes the mark away", vm: vm(),
			cached: []*unstructured.Unstructured{is, marked}, want: name, draft: true},
		{name: "restore of a marked one", why: "as any miss", vm: vm(pinned(name)), cached: []*unstructured.Unstructured{marked}, want: name, draft: true},
		{name: "update", why: "an edited instancetype changes no VM that was there", vm: vm(pinned(oldName)), old: vm(pinned(oldName)),
			cached: []*unstructured.Unstructured{is, old, current}, want: oldName},
		{name: "update without the pin", why: "kubectl replace keeps the pins", vm: vm(), old: vm(pinned(oldName)),
			cached: []*unstructured.Unstructured{is, old, current}, want: oldName},
		{name: "update with a foreign pin", why: "only an empty pin asks for another revision", vm: vm(pinned(foreignName)), old: vm(pinned(oldName)),
			cached: []*unstructured.Unstructured{is, old, current, foreign}, refused: "metadata.annotations[kilnvm.io/pins]"},
		{name: "update with what a new pin would be", why: "admission is called a second time with its own answer", vm: vm(pinned(name)), old: vm(pinned(oldName)),
			cached: []*unstructured.Unstructured{is, old, current}, want: name},
		{name: "update with an unreadable pin", why: "an update is by someone who can mend it", vm: vm(annotated("{")), old: vm(pinned(oldName)),
			cached: []*unstructured.Unstructured{is, old}, refused: "metadata.annotations[kilnvm.io/pins]"},
		{name: "new pin asked for", why: "an empty value means the current instancetype, whatever the status records", vm: vm(annotated(""), recorded(oldName)),
			old: vm(pinned(oldName), recorded(oldName)), cached: []*unstructured.Unstructured{is, old, current}, want: name},
		{name: "new pin asked for by key", why: "the instancetype's key is empty, the preference's is not", vm: vm(pinned("")), old: vm(pinned(oldName)),
			cached: []*unstructured.Unstructured{is, old, current}, want: name},
		{name: "matcher changed", why: "another instancetype is another pin", vm: vm(pinned(foreignName)),
			old: vm(matcher(v1.InstancetypeMatcher{Name: "other"}), pinned(foreignName)), cached: []*unstructured.Unstructured{is, current, other, foreign}, want: name},
		{name: "matcher respelled", why: "the empty kind is the cluster kind",
			vm: vm(matcher(v1.InstancetypeMatcher{Name: "s", Kind: "VirtualMachineClusterInstancetype"}), pinned(oldName)), old: vm(pinned(oldName)),
			cached: []*unstructured.Unstructured{is, old, current}, want: oldName},
		{name: "revision lost, instancetype unchanged", why: "the live object has just that content", vm: vm(), old: vm(pinned(name)),
			cached: []*unstructured.Unstructured{is}, want: name, draft: true},
		{name: "revision lost", why: "never another instancetype in its place, and not the user's mistake", vm: vm(), old: vm(pinned(oldName)),
			cached: []*unstructured.Unstructured{is, current}, failed: "no longer exists", requests: 1},
		{name: "admitted by KubeVirt", why: "its own revision, which the status names, is read", vm: vm(recorded("a-s-v1beta1-uid-1")),
			old: vm(recorded("a-s-v1beta1-uid-1")), cached: []*unstructured.Unstructured{is, current, kubevirt}, want: "a-s-v1beta1-uid-1"},
		{name: "admitted by KubeVirt, revision lost", why: "never another instancetype in its place", vm: vm(recorded("a-s-v1beta1-uid-1")),
			old: vm(recorded("a-s-v1beta1-uid-1")), cached: []*unstructured.Unstructured{is, current}, failed: "no longer exists", requests: 1},
		{name: "admitted by KubeVirt, another instancetype since", why: "the status is about the matcher that was",
			vm: vm(matcher(v1.InstancetypeMatcher{Name: "other"}), recorded("a-s-v1beta1-uid-1")), old: vm(recorded("a-s-v1beta1-uid-1")),
			cached: []*unstructured.Unstructured{other, kubevirt}, want: foreignName, draft: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			live := &counted{Reader: objects.New(scheme(t), append(test.live, test.cached...)...)}
			resolution, err := Resolver{Cached: objects.New(scheme(t), test.cached...), Live: live}.VM(t.Context(), test.vm, test.old)
			check(t, test.why, err, test.refused, test.failed)
			if resolution.Pins.Instancetype != test.want || len(resolution.Drafts) > 0 != test.draft {
				t.Errorf("%s: pin '%s', %d drafts; want '%s', %v", test.why, resolution.Pins.Instancetype, len(resolution.Drafts), test.want, test.draft)
			}
			if (resolution.Set.Instancetype != nil) != (test.want != "") {
				t.Errorf("%s: size %v", test.why, resolution.Set.Instancetype)
			}
			if got := strings.Join(resolution.Warnings, "\n"); !strings.Contains(got, test.warning) || got != "" && test.warning == "" {
				t.Errorf("%s: warnings '%s', want '%s'", test.why, got, test.warning)
			}
			if lost := len(resolution.LostPins) > 0; lost != (test.warning == "was dropped") {
				t.Errorf("%s: lost pins %v", test.why, resolution.LostPins)
			}
			if live.requests != test.requests {
				t.Errorf("%d requests left the process, want %d", live.requests, test.requests)
			}
		})
	}
}

// check compares an error: a *Refusal with the path of its field, or another error, which the user cannot mend, by a part of its text.
func check(t *testing.T, why string, err error, refused, failed string) {
	t.Helper()
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		if refusal.Errors[0].Field != refused {
			t.Errorf("%s: refused for %v, want field '%s'", why, err, refused)
		}
	case err != nil && (failed == "" || !strings.Contains(err.Error(), failed)):
		t.Errorf("%s: %v, want '%s'", why, err, failed)
	case err == nil && refused+failed != "":
		t.Errorf("%s: no error, want '%s'", why, refused+failed)
	}
}

func TestVMI(t *testing.T) {
	current := stored(t, size("s", "1Gi", ""))
	with := func(pins string) *v1.VirtualMachineInstance {
		return &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Annotations: map[string]string{v1alpha1.AnnotationPins: pins}}}
	}
	for _, test := range []struct {
		name, why, pins, want, failed string
		requests                      int
	}{
		{name: "none", why: "a bare VMI has no instancetype", pins: ""},
		{name: "pinned", why: "its instancetype is the one of its VM", pins: `{"instancetype":"` + current.GetName() + `"}`, want: current.GetName()},
		{name: "lost", why: "a VMI of another instancetype is worse than none", pins: `{"instancetype":"gone"}`, failed: "'gone'", requests: 1},
		{name: "of the other kind", why: "an instancetype is no preference", pins: `{"preference":"` + current.GetName() + `"}`, failed: "does not exist"},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := objects.New(scheme(t), current)
			live := &counted{Reader: files}
			resolution, err := Resolver{Cached: files, Live: live}.VMI(t.Context(), with(test.pins))
			check(t, test.why, err, "", test.failed)
			if diff := cmp.Diff(test.want, resolution.Pins.Instancetype); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.why, diff)
			}
			if live.requests != test.requests {
				t.Errorf("%d requests left the process, want %d", live.requests, test.requests)
			}
		})
	}
}
