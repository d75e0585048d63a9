package admission

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestIdentity: the seed is the UID of the request that creates the VM, unless the VM has a seed.
func TestIdentity(t *testing.T) {
	identified := strings.Replace(sparse, "name: web,", "name: web, annotations: {kilnvm.io/identity: seed},", 1)
	empty := strings.Replace(identified, "seed", "''", 1)
	dry := create(t, sparse)
	dry.DryRun = new(true)
	for _, test := range []struct {
		name, why, want string
		request         *admissionv1.AdmissionRequest
	}{
		{"new", "no two requests have one UID", "review-1", create(t, sparse)},
		{"new, called again", "the first call of a request has another UID", "seed", create(t, identified)},
		{"restored", "from a backup or from Git", "seed", create(t, identified)},
		{"empty", "an empty text is not a seed", "review-1", create(t, empty)},
		{"dry run", "no VM has this identity", "", dry},
		{"replaced", "a manifest without the seed must not make another machine of the guest", "seed", update(t, identified, sparse)},
		{"edited", "an owner may choose the seed", "mine", update(t, identified, strings.Replace(identified, "seed", "mine", 1))},
		{"updated before it has one", "the controller gives it one: an update is no creation", "", update(t, sparse, strings.Replace(sparse, "Always", "Halted", 1))},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, catalog)
			after := patched(t, test.request, ask(t, c.Hooks()[MutateVM], test.request))
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(after), &object.Object); err != nil {
				t.Fatal(err)
			}
			if got := object.GetAnnotations()["kilnvm.io/identity"]; got != test.want {
				t.Errorf("%s: identity '%s', want '%s'", test.why, got, test.want)
			}
		})
	}
}

// revisionOf is the revision of an object in the namespace of the requests, as a document.
func revisionOf(t *testing.T, object map[string]any) string {
	t.Helper()
	draft, err := revision.NewDraft("team", &unstructured.Unstructured{Object: object})
	if err != nil {
		t.Fatal(err)
	}
	stored := draft.Object()
	stored.APIVersion, stored.Kind = "apps/v1", "ControllerRevision"
	document, err := yaml.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

// TestNewVMIsComplete: where all revisions exist, admission pins a VM to all that it gets, and writes nothing. When other webhooks have labelled it, it is
// pinned to what its labels select now.
func TestNewVMIsComplete(t *testing.T) {
	const preset = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\nmetadata: {name: p, namespace: team}\n" +
		"spec: {selector: {matchLabels: {tier: web}}, domain: {ioThreadsPolicy: auto}}"
	configuration, err := config.Snapshot(installed().Defaults)
	if err != nil {
		t.Fatal(err)
	}
	object := func(document string) (object map[string]any) {
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	c := newCluster(t, catalog, preset, revisionOf(t, object(catalog)), revisionOf(t, object(preset)), revisionOf(t, configuration))
	// As the API server sends it: with a note of what the user has sent.
	const sent = "managedFields: [{manager: kubectl, operation: Update, fieldsType: FieldsV1, fieldsV1: {'f:spec': {}}}], name: web,"
	request := create(t, strings.Replace(sparse, "name: web,", sent, 1))
	first := patched(t, request, ask(t, c.Hooks()[MutateVM], request))
	for _, key := range []string{`\"instancetype\":\"small-`, `\"presets\":[],`, `\"configuration\":\"configuration-`, `"kilnvm.io/identity":"review-1"`} {
		if !strings.Contains(first, key) {
			t.Errorf("no %s: %s", key, first)
		}
	}
	if len(c.written) > 0 {
		t.Errorf("%d revisions were written that exist", len(c.written))
	}
	again := create(t, first)
	again.UID = "review-2"
	if response := ask(t, c.Hooks()[MutateVM], again); len(response.Patch) > 0 {
		t.Errorf("the second call changes what the first has made: %s", response.Patch)
	}
	labelled := create(t, inTier(first))
	labelled.UID = "review-3"
	last := patched(t, labelled, ask(t, c.Hooks()[MutateVM], labelled))
	if !strings.Contains(last, `\"presets\":[\"p-`) || !strings.Contains(last, `"kilnvm.io/identity":"review-1"`) {
		t.Errorf("labelled between two calls: %s", last)
	}
	if response := ask(t, c.Hooks()[ValidateVM], create(t, last)); !response.Allowed || len(response.Warnings) > 0 {
		t.Errorf("validation of it: %+v", response)
	}
	restored := create(t, strings.Replace(inTier(first), "managedFields", "otherFields", 1))
	if kept := patched(t, restored, ask(t, c.Hooks()[MutateVM], restored)); !strings.Contains(kept, `\"presets\":[],`) {
		t.Errorf("a VM from a backup that no preset applied to: %s", kept)
	}
}

// inTier labels the template of a VM.
func inTier(vm string) string {
	return strings.Replace(vm, `"template":{`, `"template":{"metadata":{"labels":{"tier":"web"}},`, 1)
}
