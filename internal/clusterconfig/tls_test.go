package clusterconfig

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/test/poll"
	v1 "kubevirt.io/api/core/v1"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// configured returns a watcher that has read a KubeVirt object with this TLS configuration.
func configured(t *testing.T, configuration *v1.TLSConfiguration) *Watcher {
	t.Helper()
	w := &Watcher{Log: logr.Discard()}
	w.configure(t, configuration)
	return w
}

func (w *Watcher) configure(t *testing.T, configuration *v1.TLSConfiguration) Reading {
	t.Helper()
	object := installedVersion("v1.9.0")
	object.Spec.Configuration.TLSConfiguration = configuration
	read, err := newReading("here", object)
	if err != nil {
		t.Fatal(err)
	}
	w.putReading(read)
	return read
}

// certificateOf returns a certificate that a key has signed for itself.
func certificateOf(t *testing.T, private any, public any) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"here"}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}
}

func rsaCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return certificateOf(t, key, key.Public())
}

// listen returns the address of a server whose handshakes follow the watcher.
func listen(t *testing.T, w *Watcher, server *tls.Config) string {
	t.Helper()
	w.FollowTLS(server)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = connection.(*tls.Conn).Handshake()
				_, _ = connection.Read(make([]byte, 1))
				_ = connection.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

// shake returns what a client and the server agree on.
func shake(address string, client *tls.Config) (tls.ConnectionState, error) {
	client.InsecureSkipVerify = true
	connection, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", address, client)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	return connection.ConnectionState(), connection.Close()
}

const (
	gcm  = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
	gcm2 = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
	cbc  = "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"
	weak = "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA"
	// other is a suite for certificates of another kind.
	other = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
)

// TestServersFollowTLS: clients of each version and each cipher suite are answered exactly if the configuration lets them, as by KubeVirt's servers. A client
// of TLS 1.3, such as an API server, is always answered.
func TestServersFollowTLS(t *testing.T) {
	all := []string{gcm, gcm2, cbc, weak}
	certificate := rsaCertificate(t)
	for _, test := range []struct {
		why           string
		configuration *v1.TLSConfiguration
		// suites are those with which a client of TLS 1.2 is answered.
		suites []string
		warned string
	}{
		{"nothing is configured", nil, []string{gcm, gcm2, cbc}, ""},
		{"nothing is chosen", &v1.TLSConfiguration{}, []string{gcm, gcm2, cbc}, ""},
		{"1.2", &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS12}, []string{gcm, gcm2, cbc}, ""},
		{"1.3", &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS13}, nil, ""},
		{"1.3 has its own suites", &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS13, Ciphers: []string{gcm}}, nil, "no effect with minTLSVersion"},
		{"one suite", &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS12, Ciphers: []string{gcm2}}, []string{gcm2}, ""},
		{"two suites", &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS12, Ciphers: []string{cbc, gcm}}, []string{gcm, cbc}, ""},
		{"an insecure suite that somebody asks for", &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS12, Ciphers: []string{weak}}, []string{weak}, ""},
		{"no less than 1.2", &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS10, Ciphers: []string{gcm}}, []string{gcm}, "'VersionTLS10' has no effect"},
		{"no less than 1.2", &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS11}, []string{gcm, gcm2, cbc}, "'VersionTLS11' has no effect"},
		{"an unknown version", &v1.TLSConfiguration{MinTLSVersion: "1.3"}, []string{gcm, gcm2, cbc}, "'1.3' is unknown"},
		{"an unknown suite beside a known one", &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS12, Ciphers: []string{"AES128-SHA", gcm}}, []string{gcm},
			"ciphers[0] 'AES128-SHA' is unknown"},
		{"an unknown suite", &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS12, Ciphers: []string{"AES128-SHA"}}, []string{gcm, gcm2, cbc}, "is unknown"},
		{"no suite for this certificate", &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS12, Ciphers: []string{other}}, nil, ""},
	} {
		t.Run(test.why, func(t *testing.T) {
			w := &Watcher{Log: logr.Discard()}
			read := w.configure(t, test.configuration)
			if text := strings.Join(read.Warnings, "\n"); !strings.Contains(text, test.warned) || (text == "") != (test.warned == "") {
				t.Errorf("warnings %q, want '%s'", read.Warnings, test.warned)
			}
			address := listen(t, w, &tls.Config{Certificates: []tls.Certificate{certificate}})
			if state, err := shake(address, &tls.Config{}); err != nil || state.Version != tls.VersionTLS13 {
				t.Errorf("a client of TLS 1.3: version %x, %v", state.Version, err)
			}
			for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
				if _, err := shake(address, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}); err == nil {
					t.Errorf("a client of version %x is answered", version)
				}
			}
			answered := []string{}
			for _, name := range all {
				state, err := shake(address, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suiteNamed(name).ID}})
				if err == nil {
					answered = append(answered, tls.CipherSuiteName(state.CipherSuite))
				}
			}
			if fmt.Sprint(answered) != fmt.Sprint(test.suites) {
				t.Errorf("a client of TLS 1.2 is answered with %v, want %v", answered, test.suites)
			}
		})
	}
}

// TestGroups: each group that Go has by default is answered, also after the configuration was read, which has none.
func TestGroups(t *testing.T) {
	address := listen(t, configured(t, &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS13}), &tls.Config{Certificates: []tls.Certificate{rsaCertificate(t)}})
	for _, group := range []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521} {
		if state, err := shake(address, &tls.Config{CurvePreferences: []tls.CurveID{group}}); err != nil || state.CurveID != group {
			t.Errorf("group %s: %s, %v", group, state.CurveID, err)
		}
	}
}

// TestChangedTLS: the next handshake follows a change. Sessions of before are not resumed with a version or suite that is not allowed any more.
func TestChangedTLS(t *testing.T) {
	w := configured(t, nil)
	address := listen(t, w, &tls.Config{Certificates: []tls.Certificate{rsaCertificate(t)}})
	client := &tls.Config{MaxVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(1), ServerName: "here"}
	for i := range 2 {
		if state, err := shake(address, client); err != nil || state.DidResume != (i == 1) {
			t.Fatalf("handshake %d: resumed %t, %v", i, state.DidResume, err)
		}
	}
	now, changed := w.TLS()
	w.configure(t, &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS12})
	select {
	case <-changed:
		t.Errorf("the same as %v is a change", now)
	default:
	}
	w.configure(t, &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS12, Ciphers: []string{gcm2}})
	select {
	case <-changed:
	default:
		t.Error("the change was not reported")
	}
	if state, err := shake(address, client); err != nil || tls.CipherSuiteName(state.CipherSuite) != gcm2 {
		t.Errorf("after the change: %s, %v", tls.CipherSuiteName(state.CipherSuite), err)
	}
	w.configure(t, &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS13})
	if _, err := shake(address, client); err == nil {
		t.Error("a session of TLS 1.2 is resumed")
	}
	w.configure(t, nil)
	if _, err := shake(address, client); err != nil {
		t.Errorf("without the configuration: %v", err)
	}
}

// TestFollowTLSAsksBefore: the configuration that a server makes for a client keeps what it has, and its errors.
func TestFollowTLSAsksBefore(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := certificateOf(t, key, key.Public())
	failed := false
	address := listen(t, configured(t, &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS13}), &tls.Config{
		Certificates: []tls.Certificate{rsaCertificate(t)},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if failed {
				return nil, errors.New("no authorities")
			}
			return &tls.Config{Certificates: []tls.Certificate{own}}, nil
		},
	})
	state, err := shake(address, &tls.Config{})
	if err != nil || state.PeerCertificates[0].PublicKeyAlgorithm != x509.ECDSA {
		t.Errorf("the server's own configuration is lost: %v", err)
	}
	if _, err := shake(address, &tls.Config{MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("a client of TLS 1.2 is answered")
	}
	failed = true
	if _, err := shake(address, &tls.Config{}); err == nil {
		t.Error("the error of the server is lost")
	}
}

// TestMetricsFollowTLS: controller-runtime's server of metrics gets its certificate after the function that secures it.
func TestMetricsFollowTLS(t *testing.T) {
	w := configured(t, &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS12, Ciphers: []string{cbc}})
	server, err := metricsserver.NewServer(metricsserver.Options{SecureServing: true, BindAddress: "127.0.0.1:0", TLSOpts: []func(*tls.Config){w.FollowTLS}}, nil,
		http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.Start(ctx) }()
	defer func() { stop(); <-ended }()
	bound := server.(interface{ GetBindAddr() string })
	if !poll.Until(30*time.Second, func() bool { return bound.GetBindAddr() != "" }) {
		t.Fatal("the server does not listen")
	}
	// HTTP/2 forbids the suite: clients of TLS 1.2 are answered with HTTP/1.1, and clients of TLS 1.3 with HTTP/2.
	for version, protocol := range map[uint16]string{tls.VersionTLS12: "HTTP/1.1", tls.VersionTLS13: "HTTP/2.0"} {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MaxVersion: version}} //nolint:gosec // ours
		response, err := (&http.Client{Transport: transport}).Get("https://" + bound.GetBindAddr() + "/metrics")
		if err != nil {
			t.Errorf("version %x: %v", version, err)
			continue
		}
		_ = response.Body.Close()
		if response.Proto != protocol || response.TLS.Version != version {
			t.Errorf("version %x: %s, %x", version, response.Proto, response.TLS.Version)
		}
		transport.CloseIdleConnections()
	}
	w.configure(t, &v1.TLSConfiguration{MinTLSVersion: v1.VersionTLS13})
	if _, err := shake(bound.GetBindAddr(), &tls.Config{MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("a client of TLS 1.2 is answered")
	}
}

// TestSpeaksHTTP2: Go's server of HTTP/2 does not start without one of two suites, and no client goes on with a suite that HTTP/2 forbids.
func TestSpeaksHTTP2(t *testing.T) {
	for _, test := range []struct {
		suites []string
		min    v1.TLSProtocolVersion
		want   bool
	}{
		{nil, v1.VersionTLS12, true}, {[]string{gcm}, v1.VersionTLS12, true}, {[]string{gcm, gcm2, other}, v1.VersionTLS12, true},
		{[]string{gcm2}, v1.VersionTLS12, false}, {[]string{gcm, cbc}, v1.VersionTLS12, false}, {[]string{weak}, v1.VersionTLS12, false},
		{[]string{cbc}, v1.VersionTLS13, true},
	} {
		now, _ := serverTLS(&v1.TLSConfiguration{MinTLSVersion: test.min, Ciphers: test.suites})
		if now.SpeaksHTTP2() != test.want {
			t.Errorf("%s %v: %t", test.min, test.suites, !test.want)
		}
	}
}
