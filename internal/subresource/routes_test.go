package subresource

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestEmptyNames: a path without the name of the object, or of its namespace, is not found on any route.
func TestEmptyNames(t *testing.T) {
	s := newStage(t, nil)
	below, ok := s.api.Live.(client.WithWatch)
	if !ok {
		t.Fatal("the client of the tests cannot be wrapped")
	}
	s.api.Live = interceptor.NewClient(below, interceptor.Funcs{
		Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if key.Name == "" { // as client-go's
				return errors.New("resource name may not be empty")
			}
			return to.Get(ctx, key, object, options...)
		},
	})
	base, _, _ := strings.Cut(s.url, "/namespaces/")
	for _, r := range routes() {
		if r.cluster {
			continue
		}
		path := strings.ReplaceAll(base+r.path(), "{port:*}", "22")
		for _, empty := range []string{"{name}", "{namespace}"} {
			if !strings.Contains(path, empty) {
				continue
			}
			url := strings.NewReplacer(empty, "", "{name}", "web", "{namespace}", "shop").Replace(path)
			request, err := http.NewRequestWithContext(t.Context(), r.verb, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			if response.Body.Close(); response.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s: status %d, want %d", r.verb, strings.TrimPrefix(url, base), response.StatusCode, http.StatusNotFound)
			}
		}
	}
}
