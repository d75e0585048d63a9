package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority is a CA of client certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// signed is a certificate of the authority for a use.
func (a authority) signed(t *testing.T, name string, use x509.ExtKeyUsage) []tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{use},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}
}

// TestClients: who is answered, by the certificate that they show.
func TestClients(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	const client = x509.ExtKeyUsageClientAuth
	for _, c := range []struct {
		why, want string
		trusted   []byte
		names     []string
		shown     []tls.Certificate
	}{
		{"the certificate of an API server", "answered", ours.pem(), nil, ours.signed(t, "apiserver", client)},
		{"one whose name is allowed", "answered", ours.pem(), []string{"other", "apiserver"}, ours.signed(t, "apiserver", client)},
		{"both authorities of a rotation", "answered", append(others.pem(), ours.pem()...), nil, ours.signed(t, "apiserver", client)},
		{"no certificate", "shows none", ours.pem(), nil, nil},
		{"the authority signs for others too", "common name 'kubelet'", ours.pem(), []string{"apiserver"}, ours.signed(t, "kubelet", client)},
		{"another authority", "handshake", ours.pem(), nil, others.signed(t, "apiserver", client)},
		{"a certificate for servers", "handshake", ours.pem(), nil, ours.signed(t, "apiserver", x509.ExtKeyUsageServerAuth)},
		{"a file without a certificate", "handshake", []byte("none"), nil, ours.signed(t, "apiserver", client)},
	} {
		if err := os.WriteFile(file, c.trusted, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := askedAs(t, clients{file: file, names: c.names}, c.shown); !strings.Contains(got, c.want) {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
	}
	if got := askedAs(t, clients{}, nil); got != "answered" {
		t.Errorf("without --client-ca-file everybody is answered, not '%s'", got)
	}
}

// askedAs is what a client gets that shows these certificates.
func askedAs(t *testing.T, c clients, shown []tls.Certificate) string {
	t.Helper()
	server := httptest.NewUnstartedServer(c.refuseOthers(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answered") })))
	server.Config.ErrorLog = nil
	serving := newAuthority(t).signed(t, "webhook", x509.ExtKeyUsageServerAuth)
	server.TLS = c.verifiedConfig(&tls.Config{Certificates: serving, MinVersion: tls.VersionTLS12})
	server.StartTLS()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // who serves is not the question
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if shown == nil {
				return &tls.Certificate{}, nil
			}
			return &shown[0], nil
		},
	}}}
	defer client.CloseIdleConnections()
	response, err := client.Get(server.URL)
	if err != nil {
		return "handshake: " + err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "handshake: " + err.Error()
	}
	return string(text)
}
