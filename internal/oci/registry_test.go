package oci

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// serve starts a registry in memory, behind a handler that a test may put before it, over TLS with an authority that the client trusts.
func serve(t *testing.T, before func(http.Handler) http.Handler) (client *Client, host string) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if before != nil {
		handler = before(handler)
	}
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := New(Options{CAFile: file, UserAgent: "kiln-test"})
	if err != nil {
		t.Fatal(err)
	}
	return client, strings.TrimPrefix(server.URL, "https://")
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

// key returns a private key as cosign writes it, and its public key.
func key(t *testing.T, password string) (private, public []byte) {
	t.Helper()
	_, created, err := signature.NewDefaultECDSASignerVerifier()
	if err != nil {
		t.Fatal(err)
	}
	der, err := cryptoutils.MarshalPrivateKeyToDER(created)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := encrypted.Encrypt(der, []byte(password))
	if err != nil {
		t.Fatal(err)
	}
	public, err = cryptoutils.MarshalPublicKeyToPEM(created.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: closed}), public
}

// TestSignAndVerify signs by two keys, copies, and verifies what holds and what does not.
func TestSignAndVerify(t *testing.T) {
	client, host := serve(t, nil)
	reference := "oci://" + host + "/general:1.0.0"
	digest, err := client.Push(t.Context(), reference, example("a: 1"))
	if err != nil {
		t.Fatal(err)
	}
	var keys []signature.Verifier
	for i := range 3 {
		private, public := key(t, "secret")
		signer, err := PrivateKey(private, []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		verifier, err := PublicKey(public)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, verifier)
		if i == 2 {
			continue // the third key signs nothing
		}
		var unsigned *UnsignedError
		if _, err := client.Verify(t.Context(), reference, verifier); !errors.As(err, &unsigned) || len(unsigned.Reasons) != i {
			t.Errorf("verified before key %d signed: %v", i, err)
		}
		if signed, err := client.Sign(t.Context(), reference, signer); err != nil || signed != digest {
			t.Fatalf("signed %s, %v, want %s", signed, err, digest)
		}
	}
	copied := "oci://" + host + "/mirror/general:1.0.0"
	if moved, err := client.Copy(t.Context(), reference, copied); err != nil || moved != digest {
		t.Fatalf("copied %s, %v", moved, err)
	}
	for _, reference := range []string{reference, copied} {
		for i, k := range keys {
			verified, err := client.Verify(t.Context(), reference, k)
			if i < 2 && (err != nil || verified != digest) {
				t.Errorf("%s, key %d: %s, %v", reference, i, verified, err)
			}
			if i == 2 && err == nil {
				t.Errorf("%s: a key that did not sign is verified", reference)
			}
		}
	}
}

// TestKeysThatAreRefused reads what is no key, and a key by another password.
func TestKeysThatAreRefused(t *testing.T) {
	private, public := key(t, "secret")
	for _, test := range []struct {
		name, want string
		raw        []byte
	}{
		{"another password", "cannot be decrypted", private},
		{"no PEM", "must be in PEM", []byte("secret")},
		{"public", "not 'PUBLIC KEY'", public},
		{"no key", "cannot be read", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})},
	} {
		if _, err := PrivateKey(test.raw, []byte("wrong")); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	if _, err := PublicKey(private); err == nil {
		t.Error("a private key was read as a public one")
	}
}

// TestSignatureOfAnother moves the signatures of one artifact to another's tag.
func TestSignatureOfAnother(t *testing.T) {
	client, host := serve(t, nil)
	private, public := key(t, "")
	signer, err := PrivateKey(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := PublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	good, bad := "oci://"+host+"/general:1.0.0", "oci://"+host+"/general:2.0.0"
	signed, err := client.Push(t.Context(), good, example("a: 1"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := client.Push(t.Context(), bad, example("a: 2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Sign(t.Context(), good, signer); err != nil {
		t.Fatal(err)
	}
	r, err := parse(good)
	if err != nil {
		t.Fatal(err)
	}
	repository := client.repository(r)
	manifest, err := repository.Resolve(t.Context(), signatureTag(signed))
	if err != nil {
		t.Fatal(err)
	}
	if err := repository.Tag(t.Context(), manifest, signatureTag(other)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Verify(t.Context(), bad, verifier); err == nil || !strings.Contains(err.Error(), "the signature is for "+signed.String()) {
		t.Errorf("verified: %v", err)
	}
}

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
