package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// apiServer is an API server that serves objects, and no more than commands ask of one: discovery, GET and LIST.
type apiServer struct {
	objects []unstructured.Unstructured
	// forbidden are the resources, such as 'kubevirts', that the user may not read.
	forbidden []string
	// without is an API group that is not installed.
	without string
	// answer, if set, answers what it knows in the place of the objects.
	answer func(w http.ResponseWriter, r *http.Request) bool
}

// clusterKinds are the kinds without a namespace that tests have.
var clusterKinds = []string{"HostProfile", "FrontendProfile", "ClusterGuestProfile", "Namespace", "VirtualMachineClusterInstancetype",
	"VirtualMachineClusterPreference", "ClusterRoleBinding", "ClusterRole", "CustomResourceDefinition", "Node"}

// serve returns the flags that name an API server with the objects of YAML documents.
func (s *apiServer) serve(t *testing.T, documents ...string) (flags []string) {
	t.Helper()
	for document := range strings.SplitSeq(strings.Join(documents, "\n---\n"), "\n---\n") {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		s.objects = append(s.objects, object)
	}
	known, err := crdschema.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	resources := map[schema.GroupVersion][]metav1.APIResource{}
	for kind := range known.AllKnownTypes() {
		if s.without != "" && kind.Group == s.without || strings.HasSuffix(kind.Kind, "List") ||
			strings.HasSuffix(kind.Kind, "Options") || kind.Version == "__internal" {
			continue
		}
		resources[kind.GroupVersion()] = append(resources[kind.GroupVersion()], metav1.APIResource{Name: plural(kind), SingularName: strings.ToLower(kind.Kind),
			Kind: kind.Kind, Namespaced: !slices.Contains(clusterKinds, kind.Kind), Verbs: metav1.Verbs{"get", "list"}, ShortNames: short[kind.Kind]})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.answer != nil && s.answer(w, r) {
			return
		}
		if found := discovered(resources, r.URL.Path); found != nil {
			reply(w, http.StatusOK, found)
			return
		}
		selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
		if err != nil {
			t.Error(err)
		}
		s.read(w, resources, r.URL.Path, selector)
	}))
	t.Cleanup(server.Close)
	dir := folder(t, map[string]string{"kubeconfig": `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "` + server.URL +
		`"}}], contexts: [{name: c, context: {cluster: c, namespace: shop}}]}`})
	return []string{"--kubeconfig", filepath.Join(dir, "kubeconfig"), "--cache-dir", filepath.Join(dir, "cache")}
}

var short = map[string][]string{"VirtualMachine": {"vm"}, "VirtualMachineInstance": {"vmi"}}

func plural(kind schema.GroupVersionKind) string {
	if kind.Kind == "GuestHardware" {
		return "guesthardwares"
	}
	name, _ := meta.UnsafeGuessKindToResource(kind)
	return name.Resource
}

// discovered is the answer of discovery at a path; nil at others.
func discovered(resources map[schema.GroupVersion][]metav1.APIResource, path string) any {
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for version, list := range resources {
		at := "/apis/" + version.String()
		if version.Group == "" {
			at = "/api/" + version.Version
		}
		if path == at {
			return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version.String(), APIResources: list}
		}
		if version.Group == "" {
			continue
		}
		of := metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version}
		if i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == version.Group }); i >= 0 {
			groups.Groups[i].Versions = append(groups.Groups[i].Versions, of)
			continue
		}
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: version.Group, Versions: []metav1.GroupVersionForDiscovery{of}, PreferredVersion: of})
	}
	switch path {
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}
	case "/apis":
		return groups
	}
	return nil
}

// read answers with one object, or with all of a namespace or of the cluster.
func (s *apiServer) read(w http.ResponseWriter, resources map[schema.GroupVersion][]metav1.APIResource, path string, selector labels.Selector) {
	version, rest := schema.GroupVersion{Version: "v1"}, strings.Split(strings.Trim(path, "/"), "/")
	if rest[0] == "apis" && len(rest) > 3 {
		version, rest = schema.GroupVersion{Group: rest[1], Version: rest[2]}, rest[3:]
	} else {
		rest = rest[min(2, len(rest)):]
	}
	namespace, name := "", ""
	if len(rest) > 2 && rest[0] == "namespaces" {
		namespace, rest = rest[1], rest[2:]
	}
	if len(rest) == 0 {
		reply(w, http.StatusNotFound, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "", 0, true).Status())
		return
	}
	if len(rest) > 1 {
		name = rest[1]
	}
	of := schema.GroupResource{Group: version.Group, Resource: rest[0]}
	if slices.Contains(s.forbidden, of.Resource) {
		reply(w, http.StatusForbidden, apierrors.NewForbidden(of, name, nil).Status())
		return
	}
	at := slices.IndexFunc(resources[version], func(r metav1.APIResource) bool { return r.Name == of.Resource })
	if at < 0 {
		reply(w, http.StatusNotFound, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", of, name, "", 0, true).Status())
		return
	}
	list := unstructured.UnstructuredList{Object: map[string]any{"apiVersion": version.String(), "kind": resources[version][at].Kind + "List"}}
	for _, object := range s.objects {
		kind := object.GroupVersionKind()
		if kind.GroupVersion() != version || plural(kind) != of.Resource || namespace != "" && object.GetNamespace() != namespace {
			continue
		}
		if object.GetName() == name {
			reply(w, http.StatusOK, object.Object)
			return
		}
		if selector.Matches(labels.Set(object.GetLabels())) {
			list.Items = append(list.Items, object)
		}
	}
	if name != "" {
		reply(w, http.StatusNotFound, apierrors.NewNotFound(of, name).Status())
		return
	}
	reply(w, http.StatusOK, list.UnstructuredContent())
}

func reply(w http.ResponseWriter, status int, body any) {
	if answer, is := body.(metav1.Status); is {
		answer.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		body = answer
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
