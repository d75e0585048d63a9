package admission

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/policy"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestOneSnapshot: KubeVirt expands what the VM is pinned to, or has to make the VMI again.
func TestOneSnapshot(t *testing.T) {
	four := strings.Replace(catalog, "guest: 2", "guest: 4", 1)
	sata := strings.Replace(linux, "virtio", "sata", 1)
	const theirSize, theirTaste = "web-small-v1beta1-u-1", "web-linux-v1beta1-p-1"
	for _, test := range []struct {
		why    string
		change func(o *owned)
		edits  []string
		says   string
	}{
		{"the pins", func(*owned) {}, nil, ""},
		{"a revision of KubeVirt's own with the content of the pin, before the controller has named the pin", func(o *owned) {
			o.documents = append(o.documents, storedByKubeVirt(t, theirSize, catalog), storedByKubeVirt(t, theirTaste, linux))
			o.refer(theirSize, theirTaste)
		}, nil, ""},
		{"the content of the pin in a newer API", func(o *owned) {
			o.documents = append(o.documents, storedByKubeVirt(t, theirSize, strings.Replace(catalog, "v1beta1", "v1", 1)))
			o.refer(theirSize, o.pins.Preference)
		}, nil, ""},
		{"another size, stored after an edit", func(o *owned) {
			o.documents = append(o.documents, storedByKubeVirt(t, theirSize, four))
			o.refer(theirSize, o.pins.Preference)
		}, []string{"sockets: 2", "sockets: 4"}, "has expanded revision '" + theirSize + "' of the instancetype"},
		{"another preference", func(o *owned) {
			o.documents = append(o.documents, storedByKubeVirt(t, theirTaste, sata))
			o.refer(o.pins.Instancetype, theirTaste)
		}, nil, "has expanded revision '" + theirTaste + "' of the preference"},
		{"a revision that is gone", func(o *owned) { o.refer(theirSize, o.pins.Preference) }, nil, "has expanded revision '" + theirSize + "'"},
		{"nothing is recorded", func(o *owned) { o.vm.Status = v1.VirtualMachineStatus{} }, nil, "has expanded revision ''"},
		{"the status is about another instancetype", func(o *owned) { o.vm.Status.InstancetypeRef.Name = "big" }, nil, "has expanded revision ''"},
		{"the status names the pin by now, and the VMI was made before", func(*owned) {}, []string{"sockets: 2", "sockets: 4"},
			"another revision of the instancetype"},
		{"revisionName counts before the status", func(o *owned) {
			o.vm.Spec.Instancetype.RevisionName = o.pins.Instancetype
			o.refer("anything", o.pins.Preference)
		}, nil, ""},
		{"a matcher that is not pinned", func(o *owned) { o.pins.Preference = "" }, nil, "is not pinned to its preference yet"},
		{"a volume recommended nothing", func(o *owned) {
			o.vm.Spec.Preference = &v1.PreferenceMatcher{InferFromVolume: "a"}
			o.pins.Preference = v1alpha1.PinNone
			o.vm.Status.PreferenceRef = nil
		}, nil, ""},
	} {
		t.Run(test.why, func(t *testing.T) {
			o := newOwned(t)
			test.change(o)
			response := ask(t, o.cluster(t).Hooks()[MutateVMI], theirs(t, "", test.edits...))
			if test.says == "" {
				if !response.Allowed {
					t.Errorf("%+v", response.Result)
				}
				return
			}
			if response.Allowed || response.Result.Code != http.StatusConflict || !strings.Contains(response.Result.Message, test.says) {
				t.Fatalf("%+v", response.Result)
			}
			// client-go repeats requests by itself that are answered with a time to wait, and KubeVirt would send the same VMI.
			if details := response.Result.Details; details == nil || details.RetryAfterSeconds != 0 {
				t.Errorf("details %+v", details)
			}
		})
	}
}

// TestRepinReachesTheGuest: a repin names the new revision in the pins first. Until the controller has written it into the status, KubeVirt expands the old
// one, and is asked to make the VMI again.
func TestRepinReachesTheGuest(t *testing.T) {
	four := strings.Replace(catalog, "guest: 2", "guest: 4", 1)
	o := newOwned(t)
	was := o.pins.Instancetype
	o.documents = append(o.documents, revisionOf(t, parsed(t, four)))
	o.pins.Instancetype = nameOf(t, revisionOf(t, parsed(t, four)))
	for _, step := range []struct {
		status  string
		sockets string
		allowed bool
	}{{was, "sockets: 2", false}, {o.pins.Instancetype, "sockets: 2", false}, {o.pins.Instancetype, "sockets: 4", true}} {
		o.refer(step.status, o.pins.Preference)
		response := ask(t, o.cluster(t).Hooks()[MutateVMI], theirs(t, "", "sockets: 2", step.sockets))
		if response.Allowed != step.allowed || !step.allowed && response.Result.Code != http.StatusConflict {
			t.Errorf("status names '%s', KubeVirt gave %s: %+v", step.status, step.sockets, response.Result)
		}
	}
}

// unpinned is a VM that the controller has not seen yet.
func unpinned(t *testing.T) *owned {
	t.Helper()
	o := newOwned(t)
	o.vm.Spec.Instancetype, o.vm.Spec.Preference, o.vm.Annotations, o.pins = nil, nil, map[string]string{}, v1alpha1.Pins{}
	return o
}

// TestVMBeforeItsPins: KubeVirt does not wait until the controller has pinned the presets of a VM. Its VMI is pinned to the same, as long as admission has time
// to write their revisions.
func TestVMBeforeItsPins(t *testing.T) {
	for _, test := range []struct {
		presets, written int
		pinned           bool
	}{{0, 2, true}, {6, 8, true}, {7, 0, false}} { // besides the preset of the VM, and the configuration
		o := unpinned(t)
		for i := range test.presets {
			o.documents = append(o.documents, strings.Replace(newer, "name: p", fmt.Sprintf("name: q%d", i), 1))
		}
		c := o.cluster(t)
		request := theirs(t, "kilnvm.io/identity: forged")
		text := patched(t, request, ask(t, c.Hooks()[MutateVMI], request))
		if !strings.Contains(text, `"kilnvm.io/identity":"vm-uid"`) || !strings.Contains(text, `"ioThreadsPolicy":"shared"`) ||
			strings.Contains(text, `\"presets\":[\"p-`) != test.pinned || strings.Contains(text, `\"configuration\":\"configuration-`) != test.pinned {
			t.Errorf("%d presets: %s", test.presets+1, text)
		}
		if len(c.written) != test.written {
			t.Errorf("%d presets: %d revisions are written, want %d", test.presets+1, len(c.written), test.written)
		}
	}
}

// TestVMBeforeItsPinsIsJudged: nobody has judged the VM with the current presets. Policies judge the VMI of such a VM, and no other VMI of a VM.
func TestVMBeforeItsPinsIsJudged(t *testing.T) {
	written := &v1alpha1.GuestPolicy{}
	if err := yaml.UnmarshalStrict([]byte(strings.Replace(onlyOneSocket, "{namespaceSelector: {matchLabels: {tier: gold}}}", "{}", 1)), written); err != nil {
		t.Fatal(err)
	}
	compiled, mistakes := policy.Compile(written)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	tooMany := unpinned(t)
	for i := range 10 {
		tooMany.documents = append(tooMany.documents, strings.Replace(newer, "name: p", fmt.Sprintf("name: q%d", i), 1))
	}
	for _, test := range []struct {
		why     string
		of      *owned
		refused string
	}{
		{"not pinned", unpinned(t), MutateVMI},
		{"not pinned, and too many revisions to write", tooMany, MutateVMI},
		{"pinned, and judged then", newOwned(t), ""},
	} {
		c := test.of.cluster(t)
		c.Reviewer.Policies = func() ([]*policy.Policy, error) { return []*policy.Policy{compiled}, nil }
		request := theirs(t, "")
		response := ask(t, c.Hooks()[MutateVMI], request)
		if response.Allowed != (test.refused == "") || !response.Allowed && !strings.Contains(response.Result.Message, "GuestPolicy 'one-socket'") {
			t.Errorf("%s: %+v", test.why, response.Result)
		}
		if !response.Allowed {
			// As if Kiln's mutating webhook had not been asked.
			if response := ask(t, c.Hooks()[ValidateVMI], request); response.Allowed {
				t.Errorf("%s: the validating webhook allows it", test.why)
			}
			continue
		}
		explicit := create(t, patched(t, request, response))
		explicit.UserInfo = request.UserInfo
		if response := ask(t, c.Hooks()[ValidateVMI], explicit); !response.Allowed {
			t.Errorf("%s: %+v", test.why, response.Result)
		}
	}
}

// TestOwnersAreReadOnce: one request to the API server for each VMI that KubeVirt makes for a VM, and none for any other.
func TestOwnersAreReadOnce(t *testing.T) {
	o := newOwned(t)
	o.cluster(t)
	vm, err := yaml.Marshal(o.vm)
	if err != nil {
		t.Fatal(err)
	}
	var cached []*unstructured.Unstructured
	for _, text := range o.documents {
		cached = append(cached, document(t, text))
	}
	for _, test := range []struct {
		user string
		gets int
	}{{virtController, 1}, {controller, 0}, {"eve", 0}} {
		server, made := counted(t, append(cached, document(t, string(vm))), cached)
		request := theirs(t, "")
		request.UserInfo.Username = test.user
		response := ask(t, server.Hooks()[MutateVMI], request)
		if made.get != test.gets || made.list+made.create+made.other > 0 {
			t.Errorf("%s: %+v: %+v", test.user, *made, response.Result)
		}
	}
}

// TestOutdatedIsNoFault: no alert counts a VMI that KubeVirt has to make again.
func TestOutdatedIsNoFault(t *testing.T) {
	status := errorStatus(create(t, sparse), fmt.Errorf("in a chain: %w", resolve.NewOutdated("the VM has changed")))
	if got := outcomeOf(&admissionv1.AdmissionResponse{Result: status}); got != outdated || !strings.Contains(status.Message, "the VM has changed") {
		t.Errorf("%s: %+v", got, status)
	}
}
