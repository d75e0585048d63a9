//go:build kubevirt

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"kubevirt.io/client-go/kubecli"
)

// server is an API server that has the objects of one case, and KubeVirt's client of it. virt-api's webhooks read only single objects, and ask whether an
// account may do something.
type server struct {
	*httptest.Server
	client  kubecli.KubevirtClient
	objects map[string][]byte // by path
	schemas map[string]schema // by the kind of the object
}

func newServer() (*server, error) {
	s := &server{}
	s.Server = httptest.NewServer(s)
	var err error
	if s.schemas, err = readSchemas(); err != nil {
		return nil, err
	}
	s.client, err = kubecli.GetKubevirtClientFromRESTConfig(&rest.Config{Host: s.URL, QPS: -1})
	return s, err
}

// have replaces the objects of the server.
func (s *server) have(c Case) error {
	s.objects = map[string][]byte{}
	for _, list := range [][]unstructured.Unstructured{c.Instancetypes, c.Preferences, c.Objects} {
		for i := range list {
			object := &list[i]
			raw, err := json.Marshal(object)
			if err != nil {
				return err
			}
			s.objects[pathOf(object)] = raw
		}
	}
	return nil
}

// pathOf returns the path of an object of an API server.
func pathOf(object *unstructured.Unstructured) string {
	plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	root := "/apis/"
	if plural.Group == "" {
		root = "/api/"
	}
	root += object.GroupVersionKind().GroupVersion().String() + "/"
	// A case may leave out the namespace of an object of a namespace.
	if namespace := object.GetNamespace(); namespace != "" {
		root += "namespaces/" + namespace + "/"
	} else if !strings.Contains(object.GetKind(), "Cluster") {
		root += "namespaces/default/"
	}
	return root + plural.Resource + "/" + object.GetName()
}

// ServeHTTP answers KubeVirt's client. Every account may do everything.
func (s *server) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	if request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/subjectaccessreviews") {
		out.WriteHeader(http.StatusCreated)
		_, _ = out.Write([]byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{},"status":{"allowed":true}}`))
		return
	}
	if raw, found := s.objects[request.URL.Path]; found && request.Method == http.MethodGet {
		_, _ = out.Write(raw)
		return
	}
	out.WriteHeader(http.StatusNotFound)
	parts := strings.Split(request.URL.Path, "/")
	name := parts[len(parts)-1]
	_ = json.NewEncoder(out).Encode(map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": http.StatusNotFound,
		"reason": "NotFound", "message": parts[len(parts)-2] + " \"" + name + "\" not found"})
}
