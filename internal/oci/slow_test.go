package oci

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestSlowRegistry: calls end at their limit where a registry does not answer, answers byte by byte, asks for a long pause, or has no last page of tags.
func TestSlowRegistry(t *testing.T) {
	for why, answer := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"byte by byte": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Content-Length", "1000000")
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
			if r.Method == http.MethodHead {
				return
			}
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		},
		"a long pause": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"no last page": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", fmt.Sprintf("<%s?last=x>; rel=\"next\"", r.URL.Path))
			fmt.Fprint(w, `{"name":"a","tags":[]}`)
		},
	} {
		client, host := serve(t, func(http.Handler) http.Handler { return answer })
		client.limit = 200 * time.Millisecond
		_, err := client.Tags(t.Context(), host+"/a:1", 10)
		if err == nil || !strings.Contains(err.Error(), "does not answer in time") {
			t.Errorf("%s: tags: %v", why, err)
		}
		if why == "no last page" {
			continue
		}
		if _, err := client.Pull(t.Context(), host+"/a:1"); err == nil || !strings.Contains(err.Error(), "does not answer in time") {
			t.Errorf("%s: pull: %v", why, err)
		}
	}
}
