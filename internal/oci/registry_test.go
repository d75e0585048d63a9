package oci

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/test/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// serve starts a registry in memory, behind a handler that a test may put before it, over TLS with an authority that the client trusts.
func serve(t *testing.T, before func(http.Handler) http.Handler) (client *Client, host string) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	server := registry.Start(t, before)
	client, err := New(Options{CAFile: server.Authority, UserAgent: "kiln-test"})
	if err != nil {
		t.Fatal(err)
	}
	return client, server.Host
}

func example(content string) Artifact {
	return Artifact{
		Files:       []File{{"instancetypes/small.yaml", []byte(content)}},
		Index:       []byte(`{"instancetypes":[]}`),
		Annotations: map[string]string{ocispec.AnnotationVersion: "1.0.0"},
	}
}

// TestPushAndPull publishes, reads, publishes again, and tries to publish something else under the same tag.
func TestPushAndPull(t *testing.T) {
	client, host := serve(t, nil)
	reference := "oci://" + host + "/catalogs/general:1.0.0"
	if tags, err := client.Tags(t.Context(), reference, 10); err != nil || tags != nil {
		t.Errorf("tags %v of a repository that does not exist, %v", tags, err)
	}
	digest, err := client.Push(t.Context(), reference, example("a: 1"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := client.Push(t.Context(), reference, example("a: 1")); err != nil || again != digest {
		t.Errorf("pushed again: %s, %v, want %s", again, err, digest)
	}
	var taken *TakenError
	if _, err := client.Push(t.Context(), reference, example("a: 2")); !errors.As(err, &taken) || taken.Digest != digest {
		t.Errorf("pushed another artifact: %v, want a TakenError of %s", err, digest)
	}
	want := example("a: 1")
	want.Annotations[ocispec.AnnotationCreated] = withoutTime
	byDigest, err := Pinned(reference, digest)
	if err != nil {
		t.Fatal(err)
	}
	for _, reference := range []string{reference, byDigest, trimScheme(reference)} {
		pulled, err := client.Pull(t.Context(), reference)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Pulled{want, digest}, pulled); diff != "" {
			t.Errorf("%s: %s", reference, diff)
		}
	}
	inspected, err := client.Inspect(t.Context(), reference)
	if err != nil || inspected.Files != nil || string(inspected.Index) != string(want.Index) {
		t.Errorf("inspected %+v, %v", inspected, err)
	}
	if tags, err := client.Tags(t.Context(), reference, 10); err != nil || len(tags) != 1 || tags[0] != "1.0.0" {
		t.Errorf("tags %v, %v", tags, err)
	}
}

func TestReferences(t *testing.T) {
	client, host := serve(t, nil)
	digest := "sha256:" + strings.Repeat("0", 64)
	for reference, want := range map[string]string{
		"general":                                 "must be a reference such as",
		"oci://" + host + "/general":              "must name a tag or a digest",
		"oci://" + host + "/General:1":            "must be a reference such as",
		"oci://" + host + "/general:1.0.0":        "does not exist",
		"oci://" + host + "/general@" + digest:    "does not exist",
		"oci://" + host + "/general@sha256:1":     "must be a reference such as",
		"oci://" + host + "/../general:1":         "must be a reference such as",
		"https://" + host + "/catalogs/general:1": "must be a reference such as",
	} {
		if _, err := client.Pull(t.Context(), reference); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", reference, err, want)
		}
	}
	if _, err := client.Push(t.Context(), "oci://"+host+"/general@"+digest, example("a")); err == nil || !strings.Contains(err.Error(), "must name a tag") {
		t.Errorf("pushed to a digest: %v", err)
	}
}

// TestCredentials logs in as docker's configuration file says, and in no other way.
func TestCredentials(t *testing.T) {
	client, host := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "admin" || password != "secret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="catalogs"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	reference := "oci://" + host + "/general:1.0.0"
	if _, err := client.Push(t.Context(), reference, example("a: 1")); err == nil || !strings.Contains(err.Error(), "docker login") {
		t.Fatalf("pushed without credentials: %v", err)
	}
	file := filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json")
	login := base64.StdEncoding.EncodeToString([]byte("admin:secret"))
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, login), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	again.http.Client = client.http.Client // it trusts the test's authority
	if _, err := again.Push(t.Context(), reference, example("a: 1")); err != nil {
		t.Error(err)
	}
}
