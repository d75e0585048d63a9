// Package registry serves an OCI registry in memory and makes keys as cosign does, for tests of catalogs and releases.
package registry

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// Server is a registry over TLS.
type Server struct {
	// Host is its address and port.
	Host string
	// Authority is the file with the certificate of its authority, in PEM.
	Authority string
	// Stop has nobody answer any more. It may be called again.
	Stop func()
}

// Start serves a registry until the test ends. before puts a handler before it; nil puts none.
func Start(t testing.TB, before func(http.Handler) http.Handler) Server {
	t.Helper()
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
	return Server{strings.TrimPrefix(server.URL, "https://"), file, server.Close}
}

// Serve serves a registry without TLS, at all of the listeners, until the test ends.
func Serve(t testing.TB, at ...net.Listener) {
	t.Helper()
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: time.Minute}
	for _, listener := range at {
		go func() { _ = server.Serve(listener) }() // it returns when the server is closed
	}
	t.Cleanup(func() { _ = server.Close() })
}

// Keys returns a private key as 'cosign generate-key-pair' writes it, encrypted with a password, and its public key.
func Keys(t testing.TB, password string) (private, public []byte) {
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
	if public, err = cryptoutils.MarshalPublicKeyToPEM(created.Public()); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: closed}), public
}
