package walk

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// walker chooses requests.
type walker struct {
	*rand.Rand
	*tenant
	kiln, all []resource
}

// walk sends so many requests.
func (a *tenant) walk(seed uint64, wanted int) {
	a.Helper()
	w := walker{rand.New(rand.NewPCG(seed, 0)), a, nil, a.served}
	for _, r := range a.served {
		if r.ofKiln() {
			w.kiln = append(w.kiln, r)
		}
	}
	for range wanted {
		r := w.pickResource()
		sent := w.request(r)
		got := a.ask(sent)
		if writes := sent.method != http.MethodGet && sent.method != http.MethodDelete; writes && r.ofKiln() && strings.Contains(sent.path, "/"+a.own+"/") {
			a.writes[got.status]++
		}
	}
}

// pickResource: Kiln's own kinds more often than the others, and of them those that guests are made of.
func (w walker) pickResource() resource {
	from := w.all
	if w.IntN(10) < 8 {
		from = w.kiln
	}
	if w.IntN(10) < 6 {
		guests := slices.DeleteFunc(slices.Clone(from), func(r resource) bool {
			return r.name != "virtualmachines" && r.name != "virtualmachineinstances" && r.name != "persistentvolumeclaims"
		})
		return oneOf(w, guests)
	}
	return oneOf(w, from)
}

func oneOf[T any](w walker, of []T) T { return of[w.IntN(len(of))] }

// oneIn is true once in n times.
func (w walker) oneIn(n int) bool { return w.IntN(n) == 0 }

// names that the tenant gives, few, so that requests meet. The others' are of others' objects, which the tenant may guess.
var (
	ownNames   = []string{"a", "b", "c"}
	otherNames = []string{"web", "size", "preference", "preset", "image", "secret", "settings", "node", "profile", "kiln-revision-writers",
		"kiln-webhook-tls", "small", "linux.sample"}
)

func (w walker) name() string {
	switch {
	case w.oneIn(8):
		return oneOf(w, otherNames)
	case w.oneIn(12):
		return w.revision
	}
	return oneOf(w, ownNames)
}

func (w walker) namespace() string {
	if w.IntN(5) > 0 {
		return w.own
	}
	return oneOf(w, []string{otherSpace, decoySpace, "kiln-system", "kube-system", ""})
}

// request of any verb that the resource has.
func (w walker) request(r resource) request {
	verbs := slices.Clone(r.verbs)
	if slices.Contains(verbs, "create") && !strings.Contains(r.name, "/") {
		verbs = append(verbs, "create", "create", "create", "patch", "update") // or nothing is there to be read
	}
	if len(verbs) == 0 {
		verbs = []string{"get"}
	}
	name, namespace, query := w.name(), w.namespace(), url.Values{}
	if r.name == "namespaces" {
		name = oneOf(w, []string{w.own, otherSpace, decoySpace})
	}
	sent := request{method: http.MethodGet, path: r.path(namespace, name), query: query}
	verb := oneOf(w, verbs)
	if slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, verb) && w.oneIn(5) {
		query.Set("dryRun", "All")
	}
	switch verb {
	case "list", "watch", "deletecollection":
		sent.path = r.path(namespace, "")
		w.selects(query)
	case "create":
		if !strings.Contains(r.name, "/") {
			sent.path = r.path(namespace, "")
		}
	}
	switch verb {
	case "get", "list":
		if w.oneIn(3) {
			sent.accept = oneOf(w, []string{"application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml",
				"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"})
		}
	case "watch":
		query.Set("watch", "true")
		query.Set("timeoutSeconds", "1")
	case "delete", "deletecollection":
		sent.method = http.MethodDelete
		query.Set("propagationPolicy", oneOf(w, []string{"Background", "Foreground", "Orphan"}))
		if w.oneIn(3) {
			query.Set("gracePeriodSeconds", "0")
		}
	default:
		w.write(&sent, r, verb)
	}
	return sent
}

// selects narrows a list.
func (w walker) selects(query url.Values) {
	if w.oneIn(3) {
		query.Set("labelSelector", oneOf(w, []string{"secret", "owner!=a", "instancetype.kubevirt.io/default-instancetype", "a in (b,c)", "!!"}))
	}
	if w.oneIn(4) {
		query.Set("fieldSelector", oneOf(w, []string{"metadata.namespace=" + otherSpace, "metadata.name=web", "status.phase=Running", "spec.secret=a"}))
	}
	if w.oneIn(4) {
		query.Set("limit", "1")
	}
}

// write fills in the body of a write.
func (w walker) write(sent *request, r resource, verb string) {
	object := w.object(r)
	if w.oneIn(3) {
		sent.query.Set("fieldValidation", oneOf(w, []string{"Strict", "Warn", "Ignore"}))
	}
	var body any = object
	switch verb {
	case "create":
		sent.method, sent.contentType = http.MethodPost, "application/json"
	case "update":
		sent.method, sent.contentType = http.MethodPut, "application/json"
		w.adopt(sent.path, object)
	case "patch":
		sent.method = http.MethodPatch
		switch sent.contentType = oneOf(w, []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
			"application/apply-patch+yaml"}); sent.contentType {
		case "application/json-patch+json":
			body = w.operations()
		case "application/apply-patch+yaml":
			sent.query.Set("fieldManager", oneOf(w, []string{"walk", "kiln-webhook", "kiln-launcher"}))
			sent.query.Set("force", "true")
		default:
			body = w.someFields(object)
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		w.Fatal(err)
	}
	sent.body = raw
}

// adopt makes an update that the API server takes for one of what is there: it has its resourceVersion, and often its spec.
func (w walker) adopt(path string, object map[string]any) {
	var there map[string]any
	got := w.ask(request{method: http.MethodGet, path: path})
	if got.status != http.StatusOK || json.Unmarshal(got.body, &there) != nil {
		return
	}
	metadata, _ := there["metadata"].(map[string]any)
	into := object["metadata"].(map[string]any)
	for _, key := range []string{"name", "namespace", "resourceVersion"} {
		into[key] = metadata[key]
	}
	delete(into, "generateName")
	if spec, found := there["spec"]; found && w.oneIn(2) {
		object["spec"] = spec
	}
}

// someFields returns some of the fields of an object, with a null here and there.
func (w walker) someFields(object map[string]any) map[string]any {
	kept := map[string]any{}
	for key, value := range object {
		switch {
		case key != "metadata" && w.oneIn(3):
		case w.oneIn(15):
			kept[key] = nil
		default:
			kept[key] = value
		}
	}
	return kept
}

// operations are a JSON patch.
func (w walker) operations() []any {
	paths := []string{"/metadata/annotations", "/metadata/annotations/kilnvm.io~1pins", "/spec/hardware", "/metadata/annotations/kilnvm.io~1identity",
		"/metadata/finalizers", "/metadata/ownerReferences", "/metadata/labels", "/spec", "/spec/template", "/spec/template/metadata", "/spec/instancetype",
		"/spec/runStrategy", "/status", "/spec/volumes/0", "/data", "/metadata/deletionTimestamp"}
	var operations []any
	for range 1 + w.IntN(3) {
		operation := map[string]any{"op": oneOf(w, []string{"add", "replace", "remove", "copy", "move", "test"}), "path": oneOf(w, paths), "from": oneOf(w, paths)}
		operation["value"] = oneOf(w, []any{nil, w.hostileValue(), []any{}, map[string]any{}, forged(w.T, oneOf(w, records)), "Always", "Halted"})
		operations = append(operations, operation)
	}
	return operations
}
