package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// layersForm is a manifest whose two descriptors a test changes.
const layersForm = `{"schemaVersion":2,"artifactType":"` + ArtifactType + `","layers":[` +
	`{"mediaType":"` + FilesMediaType + `"%s},{"mediaType":"` + IndexMediaType + `"%s}]}`

// TestHostileRegistry pulls from registries that are down, refuse, truncate, lie and redirect.
func TestHostileRegistry(t *testing.T) {
	var hostile atomic.Bool
	change := func(when string, with http.HandlerFunc) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if hostile.Load() && strings.Contains(r.URL.Path, when) {
					with(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	for _, test := range []struct {
		name, when string
		with       http.HandlerFunc
		want       string
	}{
		{"refuses", "/manifests/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "refuses the credentials"},
		{"asks for a password", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, "docker login"},
		{"lies about the manifest", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
			fmt.Fprint(w, `{"schemaVersion":2}`)
		}, "digest"},
		{"another artifact", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			fmt.Fprint(w, `{"schemaVersion":2,"artifactType":"application/x"}`)
		}, "the artifact type must be"},
		{"no manifest", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			fmt.Fprint(w, `[`)
		}, "the manifest cannot be read"},
		{"endless manifest", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Content-Length", "9999999999")
			_, _ = io.Copy(w, io.LimitReader(zeros{}, 8<<20)) // the client stops reading
		}, "exceeds"},
		{"large layer", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			fmt.Fprintf(w, layersForm, `,"size":99999999999`, "")
		}, "must have at most 33554432 bytes, not 99999999999"},
		{"negative layer", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			fmt.Fprintf(w, layersForm, "", `,"size":-1`)
		}, "must not be negative"},
		{"digest of another form", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			fmt.Fprintf(w, layersForm, "", `,"digest":"../../x"`)
		}, "digest"},
		{"truncates", "/blobs/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{") }, "the layer of the"},
		{"lies about the blob", "/blobs/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"instancetypes":[1]`) }, "the layer of the"},
		{"redirects for ever", "/manifests/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, "redirects more than 5 times"},
		{"redirects to HTTP", "/manifests/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "redirects from HTTPS to 'http'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			hostile.Store(false)
			client, host := serve(t, change(test.when, test.with))
			reference := "oci://" + host + "/general:1.0.0"
			if _, err := client.Push(t.Context(), reference, example("a: 1")); err != nil {
				t.Fatal(err)
			}
			hostile.Store(true)
			pulled, err := client.Pull(t.Context(), reference)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), reference) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if pulled.Files != nil || pulled.Index != nil {
				t.Errorf("returned %+v", pulled)
			}
		})
	}
	t.Run("down", func(t *testing.T) {
		client, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Pull(t.Context(), "oci://127.0.0.1:1/general:1.0.0"); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Error(err)
		}
	})
	t.Run("silent", func(t *testing.T) {
		ended := make(chan struct{})
		t.Cleanup(func() { close(ended) })
		client, host := serve(t, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-r.Context().Done():
				case <-ended:
				}
			})
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := client.Pull(ctx, "oci://"+host+"/general:1.0.0"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
