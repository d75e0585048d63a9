package oci

import (
	"errors"
	"io"
	"log"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/test/registry"
)

// writeImage writes an archive of an image for platforms, whose only file has a text.
func writeImage(t *testing.T, text string, architectures ...string) (file string) {
	t.Helper()
	var images []archive.Image
	for _, architecture := range architectures {
		root := &archive.Root{}
		if err := root.AddText("program", text+architecture, 0o755); err != nil {
			t.Fatal(err)
		}
		images = append(images, archive.Image{OS: "linux", Architecture: architecture, Root: root})
	}
	file = filepath.Join(t.TempDir(), "image.tar")
	if err := archive.Write(file, "docker.io/library/kiln:v1", images...); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestArchive publishes images for one and for two platforms, signs them and attaches a document, in registries with and without the API of referrers.
func TestArchive(t *testing.T) {
	const cyclone, bill = "application/vnd.cyclonedx+json", `{"bomFormat":"CycloneDX"}`
	private, public := registry.Keys(t, "secret")
	signer, err := PrivateKey(private, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := PublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name          string
		referrers     bool
		architectures []string
	}{
		{"an image", false, []string{"amd64"}},
		{"an index", false, []string{"amd64", "arm64"}},
		{"an index, and the API of referrers", true, []string{"amd64", "arm64"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			client, host := serve(t, func(http.Handler) http.Handler {
				return ggcr.New(ggcr.WithReferrersSupport(test.referrers), ggcr.Logger(log.New(io.Discard, "", 0)))
			})
			repository, file := "oci://"+host+"/kiln", writeImage(t, "one", test.architectures...)
			reference, pushed, err := client.PushArchive(t.Context(), file, repository)
			if err != nil || reference != repository+":v1" {
				t.Fatalf("'%s' %v", reference, err)
			}
			if _, again, err := client.PushArchive(t.Context(), file, repository); err != nil || again != pushed {
				t.Errorf("pushed again: %s, %v, want %s", again, err, pushed)
			}
			var taken *TakenError
			if _, _, err := client.PushArchive(t.Context(), writeImage(t, "two", test.architectures...), repository); !errors.As(err, &taken) {
				t.Errorf("pushed another image: %v, want a TakenError", err)
			}
			if _, _, err := client.PushArchive(t.Context(), "layout.go", repository); err == nil || !strings.Contains(err.Error(), "must be an OCI archive") {
				t.Errorf("pushed what is no archive: %v", err)
			}
			if _, err := client.Attached(t.Context(), reference, cyclone); err == nil || !strings.Contains(err.Error(), "has no document") {
				t.Errorf("found a document before one was attached: %v", err)
			}
			attached, err := client.Attach(t.Context(), reference, cyclone, "kiln.cdx.json", []byte(bill))
			if err != nil {
				t.Fatal(err)
			}
			if again, err := client.Attach(t.Context(), reference, cyclone, "kiln.cdx.json", []byte(bill)); err != nil || again != attached {
				t.Errorf("attached again: %s, %v, want %s", again, err, attached)
			}
			if found, err := client.Attached(t.Context(), reference, cyclone); err != nil || string(found) != bill {
				t.Errorf("attached '%s', %v", found, err)
			}
			if signed, err := client.Sign(t.Context(), reference, signer); err != nil || signed != pushed {
				t.Fatalf("signed %s, %v, want %s", signed, err, pushed)
			}
			if verified, err := client.Verify(t.Context(), reference, verifier); err != nil || verified != pushed {
				t.Errorf("verified %s, %v, want %s", verified, err, pushed)
			}
		})
	}
}
