package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
)

const name = "kiln-webhook.kiln-system.svc"

// signed is what cert-controller signs: a CA, and a certificate and key of it, PEM.
func signed(t *testing.T, notAfter time.Time) (ca, certificate, key []byte) {
	t.Helper()
	r := rotator.CertRotator{CAName: "ca", DNSName: name, ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	begin := time.Now().Add(-time.Hour)
	artifacts, err := r.CreateCACert(begin, notAfter)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err = r.CreateCertPEM(artifacts, begin, notAfter)
	if err != nil {
		t.Fatal(err)
	}
	return artifacts.CertPEM, certificate, key
}

func TestBundle(t *testing.T) {
	end := time.Now().Add(time.Hour)
	one, _, _ := signed(t, end)
	two, _, _ := signed(t, end)
	three, _, _ := signed(t, end)
	both := func(a, b []byte) []byte { return append(bytes.Clone(a), b...) }
	for _, c := range []struct {
		why                string
		next, stored, want []byte
	}{
		{"a first CA has no predecessor", one, nil, one},
		{"what is stored is no certificate, so nothing served depends on it", one, []byte("junk"), one},
		{"a new CA stands first, since cert-controller signs with the first", two, one, both(two, one)},
		{"the CA before the last goes: the bundle does not grow", three, both(two, one), both(three, two)},
		{"only the certificate was renewed, so both stay trusted", both(two, one), both(two, one), both(two, one)},
	} {
		if diff := cmp.Diff(string(c.want), string(bundleCAs(c.next, c.stored))); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.why, diff)
		}
	}
}

// selected stands in for the API server and records what it was asked.
type selected struct{ query string }

func (s *selected) RoundTrip(r *http.Request) (*http.Response, error) {
	s.query = r.URL.Query().Get("fieldSelector")
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func TestSelecting(t *testing.T) {
	for _, c := range []struct{ why, url, want string }{
		{"a watch of all Secrets becomes one of ours, or RBAC by name would refuse it",
			"https://a/api/v1/namespaces/n/secrets?watch=true", "metadata.name=kiln-webhook-tls"},
		{"a single object is named already", "https://a/api/v1/namespaces/n/secrets/kiln-webhook-tls", ""},
		{"other resources are none of our business", "https://a/api/v1/namespaces/n/pods", ""},
	} {
		asked := &selected{}
		request, err := http.NewRequest(http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := selecting{asked, map[string]string{"secrets": Secret}}.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if asked.query != c.want {
			t.Errorf("%s: field selector '%s', want '%s'", c.why, asked.query, c.want)
		}
		if request.URL.String() != c.url {
			t.Errorf("%s: the caller's request was changed to %s", c.why, request.URL)
		}
	}
}

// TestServing rotates under a listener that is never restarted, CA included.
func TestServing(t *testing.T) {
	dir := t.TempDir()
	serving := Watch(dir)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serving.Start(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	}()
	address := listen(t, serving)
	served := &Served{Address: address, Name: name, Authorities: serving.Authorities(), Now: time.Now}

	if _, err := handshake(address, x509.NewCertPool()); err == nil {
		t.Error("a handshake succeeds before there is a certificate")
	}
	if err := served.Check(nil); err == nil {
		t.Error("ready before there is a certificate")
	}
	if got := ends(t, served); got != 0 {
		t.Errorf("metric is %v before there is a certificate", got)
	}
	for _, why := range []string{"the first certificate", "a rotated CA and certificate"} {
		end := time.Now().Add(time.Duration(len(why)) * time.Hour).Truncate(time.Second)
		ca, certificate, key := signed(t, end)
		for file, content := range map[string][]byte{keyFile: key, certificateFile: certificate, caFile: ca} {
			if err := replace(filepath.Join(dir, file), content); err != nil {
				t.Fatal(err)
			}
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca)
		deadline := time.Now().Add(30 * time.Second)
		for {
			got, err := handshake(address, roots)
			if err == nil {
				if !got.NotAfter.Equal(end) {
					t.Errorf("%s ends at %s, want %s", why, got.NotAfter, end)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is not served: %v", why, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if got := ends(t, served); got != float64(end.Unix()) {
			t.Errorf("%s: metric is %v, want %v", why, got, end.Unix())
		}
		if err := served.Check(nil); err != nil {
			t.Errorf("%s: not ready: %v", why, err)
		}
	}
}

// replace writes a file that a reader sees whole or not at all.
func replace(file string, content []byte) error {
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func listen(t *testing.T, serving *Serving) net.Addr {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: serving.GetCertificate, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_ = connection.(*tls.Conn).Handshake() // the client reports it
			}()
		}
	}()
	return listener.Addr()
}

// handshake is what an API server does: it trusts the roots and expects the name of the service.
func handshake(address net.Addr, roots *x509.CertPool) (*x509.Certificate, error) {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	connection, err := tls.DialWithDialer(dialer, "tcp", address.String(), &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0], nil
}
