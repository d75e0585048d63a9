package walk

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// resource is what the API server serves under a name, with the subresources apart: 'virtualmachines/status'.
type resource struct {
	group, version, name, kind string
	namespaced                 bool
	verbs                      []string
}

// path of a list, or of an object. Without a namespace it is the list of all namespaces.
func (r resource) path(namespace, name string) string {
	path := "/apis/" + r.group + "/" + r.version
	if r.group == "" {
		path = "/api/" + r.version
	}
	if r.namespaced && namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	plural, below, _ := strings.Cut(r.name, "/")
	if path += "/" + plural; name != "" {
		path += "/" + url.PathEscape(name)
	}
	if below != "" {
		path += "/" + below
	}
	return path
}

// ofKiln reports whether Kiln's admission, or a policy of its, judges writes of the resource.
func (r resource) ofKiln() bool {
	return strings.HasSuffix(r.group, "kubevirt.io") || r.group == "kilnvm.io" || r.name == "controllerrevisions"
}

// discover asks the API server for all that it serves.
func (w *world) discover() (all []resource) {
	w.Helper()
	admin := w.administrator()
	read := func(path string, into any) {
		w.Helper()
		if got := admin.send(request{method: http.MethodGet, path: path}); got.status != http.StatusOK || json.Unmarshal(got.body, into) != nil {
			w.Fatalf("%s: %d %s", path, got.status, got.body)
		}
	}
	var groups struct {
		Groups []struct {
			Name     string
			Versions []struct{ Version string }
		}
	}
	read("/apis", &groups)
	served := []resource{{version: "v1"}}
	for _, group := range groups.Groups {
		for _, v := range group.Versions {
			served = append(served, resource{group: group.Name, version: v.Version})
		}
	}
	for _, s := range served {
		var list struct {
			Resources []struct {
				Name, Kind string
				Namespaced bool
				Verbs      []string
			}
		}
		read(strings.TrimSuffix(s.path("", ""), "/"), &list)
		for _, r := range list.Resources {
			all = append(all, resource{s.group, s.version, r.Name, r.Kind, r.Namespaced, r.Verbs})
		}
	}
	return all
}
