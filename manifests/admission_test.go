package manifests_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/test/poll"
	admissionv1 "k8s.io/api/admission/v1"
)

// policiesAgain: after an uninstall, the API server still finds the ConfigMap that policies name when Kiln is installed again. Otherwise it would refuse every
// write of a revision until it is started anew.
func policiesAgain(t *testing.T, p plane) {
	p.kubectl(t, "", "delete", "configmap", "kiln-revision-writers", "-n=kiln-system")
	time.Sleep(time.Second) // until the API server has seen it: otherwise it would find the old one
	p.kubectl(t, "", "delete", "validatingadmissionpolicybindings,validatingadmissionpolicies", "-l", "kilnvm.io/uninstall!=keep")
	time.Sleep(4 * time.Second) // it looks every second for kinds of parameters that no binding needs
	p.kubectl(t, "", "apply", "--server-side", "-k", "overlays/rotation")
	p.kubectl(t, "", "apply", "--server-side", "-k", "policies/rules")
	const revision = `{"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {},
		"metadata": {"name": "r", "namespace": "default", "labels": {"kilnvm.io/any": "x"}}}`
	eventually(t, "Kiln's webhook may write revisions, and the policy keeps others from it", func() bool {
		_, ours := p.try(webhookAccount, revision, "create", "--dry-run=server", "-f", "-")
		out, others := p.try("", revision, "create", "--dry-run=server", "-f", "-")
		return ours == nil && others != nil && strings.Contains(out, "may not write revisions")
	})
}

func revisionWriters(t *testing.T, p plane) {
	revision := func(label, namespace string) string {
		return `{"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {},
			"metadata": {"name": "r", "namespace": "` + namespace + `", "labels": {"` + label + `": "x"}}}`
	}
	const object, ours = "instancetype.kubevirt.io/object-name", "kilnvm.io/any"
	p.kubectl(t, "", "create", "namespace", "team")
	// A policy works a moment after it is stored.
	eventually(t, "the policy works", func() bool {
		_, err := p.try("", revision(object, "team"), "create", "--dry-run=server", "-f", "-")
		return err != nil
	})
	for _, c := range []struct {
		why, user, input string
		args             []string
		refused          bool
	}{
		{"not even an administrator writes what guests are built from", "", revision(object, "team"), []string{"create", "-f", "-"}, true},
		{"nor what bears a label of Kiln's", "", revision(ours, "team"), []string{"create", "-f", "-"}, true},
		{"a daemon set's are none of our business", "", revision("app", "default"), []string{"create", "-f", "-"}, false},
		{"one cannot be turned into one of ours", "", "", []string{"label", "controllerrevision", "r", "-n=default", object + "=y"}, true},
		{"admission may", webhookAccount, revision(object, "team"), []string{"create", "-f", "-"}, false},
		{"its label cannot be taken away first", "", "", []string{"label", "controllerrevision", "r", "-n=team", object + "-"}, true},
		{"it cannot be deleted under a guest", "", "", []string{"delete", "controllerrevision", "r", "-n=team"}, true},
		{"with its namespace it goes", "", "", []string{"delete", "namespace", "team", "--timeout=60s"}, false},
	} {
		out, err := p.try(c.user, c.input, c.args...)
		if (err != nil) != c.refused {
			t.Errorf("%s: refused %t, want %t: %s", c.why, err != nil, c.refused, out)
		}
		if c.refused && !strings.Contains(out, "'kiln-revision-writers' of namespace 'kiln-system'") {
			t.Errorf("%s: the message does not say what to do: %s", c.why, out)
		}
	}
}

// recorder is a webhook that allows everything and remembers what it was asked.
type recorder struct {
	mutex sync.Mutex
	calls []string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mutex.Lock()
	r.calls = append(r.calls, request.URL.Path+" "+string(review.Request.Operation)+" "+review.Request.Kind.Version)
	r.mutex.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	_ = json.NewEncoder(w).Encode(review) // the API server reports a broken answer
}

// asked gives what was asked since the last call.
func (r *recorder) asked() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

func conditions(t *testing.T, p plane) {
	p.grantWriters(t)
	asked := &recorder{}
	server := httptest.NewTLSServer(asked)
	defer server.Close()
	answeredBy(t, p, documents(t, p.kubectl(t, "", "kustomize", "webhook/configurations")), server)
	vm := func(version, strategy string) string {
		return "apiVersion: kubevirt.io/" + version + "\nkind: VirtualMachine\nmetadata: {name: web, namespace: default}\n" +
			"spec: {runStrategy: " + strategy + ", template: {spec: {domain: {devices: {}}}}}\n"
	}
	status := func(account, ready string) []string {
		return []string{"patch", "vm/web", "--subresource=status", "--type=merge",
			`-p={"status":{"ready":` + ready + `}}`, "--as=" + account, "--as-group=" + writersGroup}
	}
	eventually(t, "the API server calls the recorder", func() bool {
		_, err := p.try("", vm("v1", "Halted"), "create", "--dry-run=server", "-f", "-")
		return err == nil && len(asked.asked()) == 2
	})
	created := []string{"/mutate/virtualmachines CREATE v1", "/validate/virtualmachines CREATE v1"}
	updated := []string{"/mutate/virtualmachines UPDATE v1", "/validate/virtualmachines UPDATE v1"}
	guestUpdated := []string{"/validate/virtualmachineinstances UPDATE v1"}
	const guest = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: web, finalizers: [example.com/hold]}\n" +
		"spec: {domain: {devices: {}}}\n"
	for _, c := range []struct {
		why, input string
		args       []string
		want       []string
	}{
		{"a new object has no old one to compare with", vm("v1", "Halted"), []string{"create", "-f", "-"}, created},
		{"policies read annotations", "", []string{"annotate", "vm/web", "example.com/note=x"}, []string{"/validate/virtualmachines UPDATE v1"}},
		{"a finalizer is nothing to judge", "", []string{"patch", "vm/web", "--type=merge", `-p={"metadata":{"finalizers":["example.com/hold"]}}`}, nil},
		{"a status that Kiln writes is not", "", status(controllerAccount, "true"), nil},
		{"one that others write is", "", status("system:serviceaccount:kubevirt:kubevirt-controller", "false"), []string{"/validate/status UPDATE v1"}},
		{"nor one that an administrator mends", "", []string{"patch", "vm/web", "--subresource=status", "--type=merge", `-p={"status":{"ready":true}}`}, nil},
		{"our annotations are", "", []string{"annotate", "vm/web", "kilnvm.io/pins="}, updated},
		{"also when one goes", "", []string{"annotate", "vm/web", "kilnvm.io/pins-"}, updated},
		{"KubeVirt's too", "", []string{"annotate", "vm/web", "kubevirt.io/x=y"}, updated},
		{"presets select by label", "", []string{"label", "vm/web", "tier=web"}, updated},
		{"a spec is what this is about, in any version", vm("v1alpha3", "Always"), []string{"apply", "--server-side", "--force-conflicts", "-f", "-"}, updated},
		{"a stop is nobody's to hold", "", []string{"patch", "vm/web", "--type=merge", `-p={"spec":{"runStrategy":"Halted"}}`}, nil},
		{"a start is judged", "", []string{"patch", "vm/web", "--type=merge", `-p={"spec":{"runStrategy":"Always"}}`}, updated},
		{"another run strategy is", "", []string{"patch", "vm/web", "--type=merge", `-p={"spec":{"runStrategy":"Manual"}}`}, updated},
		{"a stop that changes more is", "", []string{"patch", "vm/web", "--type=merge",
			`-p={"spec":{"runStrategy":"Halted","template":{"spec":{"hostname":"a"}}}}`}, updated},
		{"the older field too", "", []string{"patch", "vm/web", "--type=merge", `-p={"spec":{"running":true,"runStrategy":null}}`}, updated},
		{"which stops as well", "", []string{"patch", "vm/web", "--type=merge", `-p={"spec":{"running":false}}`}, nil},
		{"a stop with a label is judged", "", []string{"patch", "vm/web", "--type=merge",
			`-p={"metadata":{"labels":{"tier":"app"}},"spec":{"running":false}}`}, updated},
		{"the same with an annotation", "", []string{"patch", "vm/web", "--type=merge",
			`-p={"metadata":{"annotations":{"kilnvm.io/pins":"{}"}},"spec":{"running":false}}`}, updated},
		{"deletion is not ours to hold", "", []string{"delete", "vm/web", "--wait=false"}, nil},
		{"a VM that is being deleted may be changed", "", []string{"label", "vm/web", "tier=db", "--overwrite"}, nil},
		{"and let go", "", []string{"patch", "vm/web", "--type=merge", `-p={"metadata":{"finalizers":null}}`}, nil},
		{"a guest is judged when it is created", guest, []string{"create", "-f", "-"},
			[]string{"/mutate/virtualmachineinstances CREATE v1", "/validate/virtualmachineinstances CREATE v1"}},
		{"and when its record changes", "",
			[]string{"annotate", "vmi/web", "kilnvm.io/generation=x", "--as=" + controllerAccount, "--as-group=" + writersGroup}, guestUpdated},
		{"or its owner", "",
			[]string{"patch", "vmi/web", "--type=merge",
				`-p={"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"u"}]}}`}, guestUpdated},
		{"not when it is deleted", "", []string{"delete", "vmi/web", "--wait=false"}, nil},
		{"but when its record changes until it has gone", "",
			[]string{"annotate", "vmi/web", "kilnvm.io/generation-", "--as=" + controllerAccount, "--as-group=" + writersGroup}, guestUpdated},
		{"which nothing holds", "", []string{"patch", "vmi/web", "--type=merge", `-p={"metadata":{"finalizers":null}}`}, nil},
	} {
		p.kubectl(t, c.input, c.args...)
		if diff := cmp.Diff(c.want, asked.asked()); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.why, diff)
		}
	}
}

// eventually waits for what the API server does a moment later.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !poll.Until(time.Minute, holds) {
		t.Fatalf("not within a minute: %s", what)
	}
}
