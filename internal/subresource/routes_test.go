package subresource

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// strictStage is a stage whose client refuses names as client-go does, by errors without a status.
func strictStage(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, nil)
	below, ok := s.api.Live.(client.WithWatch)
	if !ok {
		t.Fatal("the client of the tests cannot be wrapped")
	}
	s.api.Live = interceptor.NewClient(below, interceptor.Funcs{
		Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if key.Name == "" || len(content.IsPathSegmentName(key.Name))+len(content.IsPathSegmentName(key.Namespace)) > 0 {
				return fmt.Errorf("invalid resource name %q in %q", key.Name, key.Namespace)
			}
			return to.Get(ctx, key, object, options...)
		},
	})
	return s
}

// sendRaw sends a request whose path is not cleaned before, and returns the code, the header and the Status of the answer.
func (s *stage) sendRaw(t *testing.T, verb, path string) (int, http.Header, metav1.Status) {
	t.Helper()
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: kiln\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", verb, path); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: verb})
	if err != nil {
		t.Fatalf("%s %s: %v", verb, path, err)
	}
	defer response.Body.Close()
	var status metav1.Status
	_ = json.NewDecoder(response.Body).Decode(&status) // an answer that is no Status has none
	return response.StatusCode, response.Header, status
}

// TestEmptyNames: a path without the name of the object, or of its namespace, is not found on any route.
func TestEmptyNames(t *testing.T) {
	s := strictStage(t)
	for _, version := range Versions {
		for _, r := range allRoutes() {
			if r.cluster {
				continue
			}
			path := strings.ReplaceAll("/apis/"+version.String()+r.pathBelowVersion(), "{port:*}", "22")
			for _, empty := range []string{"{name}", "{namespace}"} {
				if !strings.Contains(path, empty) {
					continue
				}
				path := strings.NewReplacer(empty, "", "{name}", "web", "{namespace}", "shop").Replace(path)
				code, _, status := s.sendRaw(t, r.verb, path)
				if code != http.StatusNotFound || status.Code != http.StatusNotFound || !strings.Contains(status.Message, "in the path is empty") {
					t.Errorf("%s %s: status %d: %+v", r.verb, path, code, status)
				}
			}
		}
	}
}

// TestPaths: a path or a verb that means nothing is answered by a Status of the client's mistake, neither by an error of the server nor by a redirect.
func TestPaths(t *testing.T) {
	s := strictStage(t)
	const put, get = http.MethodPut, http.MethodGet
	long := strings.Repeat("a", 300)
	for _, c := range []struct {
		verb, path string
		code       int
	}{
		{put, "/namespaces/shop/virtualmachineinstances/web/pause", 200},
		{put, "/namespaces/shop/virtualmachineinstances/web/unpause/", 409}, // a slash at the end means nothing; the guest runs
		{put, "/namespaces/shop/virtualmachineinstances/web/unpause//", 409},
		{put, "/namespaces///unpause", 404},
		{put, "//namespaces/shop/virtualmachineinstances/web/unpause", 404},
		{put, "/namespaces//shop/virtualmachineinstances/web/unpause", 404},
		{put, "/namespaces/shop//virtualmachineinstances/web/unpause", 404},
		{put, "/namespaces/shop/virtualmachineinstances/web//unpause", 404},
		{put, "/namespaces/shop/virtualmachineinstances/a%2Fb/unpause", 404},
		{put, "/namespaces/shop/virtualmachineinstances/%2F/unpause", 404},
		{put, "/namespaces/shop/virtualmachineinstances/%2f..%2fweb/unpause", 404},
		{put, "/namespaces/a%2Fb/virtualmachineinstances/web/unpause", 404},
		{put, "/namespaces/shop/virtualmachineinstances/../unpause", 400},
		{put, "/namespaces/shop/virtualmachineinstances/./unpause", 400},
		{put, "/namespaces/shop/virtualmachineinstances/%2e%2e/unpause", 400},
		{put, "/namespaces/../virtualmachineinstances/web/unpause", 400},
		{put, "/namespaces/%2e/virtualmachines/web/start", 400},
		{put, "/namespaces/%2e%2e/expand-vm-spec", 400},
		{put, "/namespaces/a%25/virtualmachines/web/stop", 400},
		{put, "/namespaces/shop/virtualmachines/%25/restart", 400},
		{get, "/namespaces/%2e%2e/virtualmachineinstances/web/console", 400},
		{get, "/namespaces/shop/virtualmachineinstances/%2e%2e/vnc", 400},
		{put, "/namespaces/shop/virtualmachineinstances/" + long + "/unpause", 404},
		{put, "/namespaces/" + long + "/virtualmachineinstances/web/unpause", 404},
		{put, "/namespaces/shop/virtualmachines/We%20b_/start", 404},
		{put, "/namespaces/shop/virtualmachines/%00/start", 404},
		{put, "/namespaces/shop/virtualmachines/%ff/start", 404},
		{put, "/namespaces/shop/virtualmachines/web/unknown", 404},
		{put, "/namespaces/shop/virtualmachines/web/start/more", 404},
		{put, "/namespaces/shop/virtualmachines/web/", 404},
		{put, "/namespaces/shop/virtualmachines/web", 404},
		{get, "/namespaces/shop/virtualmachines", 404},
		{get, "/namespaces/shop/pods/web/log", 404},
		{put, "/namespaces/shop/VirtualMachines/web/start", 404},
		{http.MethodPost, "/namespaces/shop/virtualmachines/web/start", 405},
		{http.MethodDelete, "/namespaces/shop/virtualmachines/web/start", 405},
		{http.MethodPatch, "/namespaces/shop/virtualmachines/web/start", 405},
		{http.MethodOptions, "/namespaces/shop/virtualmachines/web/start", 405},
		{"NOTHING", "/namespaces/shop/virtualmachines/web/start", 405},
		{http.MethodPost, "/namespaces/shop/virtualmachineinstances//unpause", 405},
		{put, "/namespaces/shop/virtualmachineinstances/web/console", 405},
		{get, "/namespaces/shop/virtualmachineinstances/web/console", 400}, // no WebSocket
		{get, "/namespaces/shop/virtualmachineinstances/web/portforward", 404},
		{get, "/namespaces/shop/virtualmachineinstances/web/portforward/", 404},
		{get, "/namespaces/shop/virtualmachineinstances/web/portforward/../22", 400},
		{get, "/namespaces/shop/virtualmachineinstances/web/portforward/99999", 400},
		{get, "/namespaces/shop/virtualmachineinstances/web/portforward/22/sctp", 400},
		{put, "/version", 405},
		{get, "/nothing", 404},
	} {
		for _, version := range Versions {
			code, header, status := s.sendRaw(t, c.verb, "/apis/"+version.String()+c.path)
			if code != c.code || header.Get("Location") != "" {
				t.Errorf("%s %.150s: status %d to '%s', want %d: %+v", c.verb, c.path, code, header.Get("Location"), c.code, status)
			}
			if c.code != http.StatusOK && (status.Kind != "Status" || status.APIVersion != "v1" || int(status.Code) != c.code || status.Message == "") {
				t.Errorf("%s %.150s: status %d, but its body is not a Status of it: %+v", c.verb, c.path, code, status)
			}
		}
	}
}
