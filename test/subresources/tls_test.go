package subresources

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/poll"
	v1 "kubevirt.io/api/core/v1"
)

// TestTLSOfTheCluster: the webhook and the API server of subresources follow tlsConfiguration while they run, and Kubernetes' API server reaches both with each
// configuration, also with one that no client of TLS 1.2 can meet. It is not parallel: it changes the configuration of all tests.
func TestTLSOfTheCluster(t *testing.T) {
	before, err := os.ReadFile(filepath.Join(shared.Dir, "configuration.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := spaceOf(t)
	addresses := shared.Secured()
	if len(addresses) < 2 {
		t.Fatalf("there are %d servers", len(addresses))
	}
	t.Cleanup(func() {
		if err := shared.Configure(string(before)); err != nil {
			t.Error(err)
		}
		weak := &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA}} //nolint:gosec // it must be refused
		// Other tests call the API server, which listens again.
		for _, address := range addresses {
			if !poll.Until(time.Minute, func() bool { return isAnswered(address, &tls.Config{}) && !isAnswered(address, weak) }) {
				t.Errorf("%s does not follow the configuration of before", address)
			}
		}
	})
	silent := watchSilence(t, addresses[len(addresses)-1])
	defer func() {
		if longest := silent(); longest > 10*time.Second {
			t.Errorf("the API server of subresources did not listen for %s", longest)
		} else {
			t.Logf("the API server of subresources did not listen for %s at most", longest)
		}
	}()
	const (
		small = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
		both  = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
	)
	for _, step := range []struct {
		name, configuration string
		// answered are the cipher suites with which clients of TLS 1.2 are answered.
		answered map[uint16]bool
	}{
		{"default", "", map[uint16]bool{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: true, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: true}},
		{"one", "{minTLSVersion: VersionTLS12, ciphers: [" + small + "]}",
			map[uint16]bool{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: true, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: false}},
		{"mistyped", "{minTLSVersion: VersionTLS12, ciphers: [NONE, " + both + "]}",
			map[uint16]bool{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: false, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: true}},
		{"newest", "{minTLSVersion: VersionTLS13}",
			map[uint16]bool{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: false, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: false}},
		{"impossible", "{minTLSVersion: VersionTLS12, ciphers: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA]}",
			map[uint16]bool{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: false, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: false,
				tls.TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA: true}}, //nolint:gosec // an administrator asks for it
	} {
		text := string(before)
		if step.configuration != "" {
			text += "\ntlsConfiguration: " + step.configuration + "\n"
		}
		if err := shared.Configure(text); err != nil {
			t.Fatal(err)
		}
		for _, address := range addresses {
			for suite, want := range step.answered {
				s.eventually(step.name+": "+address+" with "+tls.CipherSuiteName(suite), func() bool {
					return isAnswered(address, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}}) == want &&
						isAnswered(address, &tls.Config{MinVersion: tls.VersionTLS13})
				})
			}
		}
		// Kubernetes' API server has closed its connections to the one and keeps those to the other. It makes new ones.
		s.make(step.name, v1.RunStrategyHalted)
		s.eventually("a start is answered", func() bool { return s.call(http.MethodPut, "vm/"+step.name+"/start", "").code == http.StatusAccepted })
	}
}

// watchSilence connects with an address all the time. The function that it returns ends this, and returns the longest time without an answer.
func watchSilence(t *testing.T, address string) func() time.Duration {
	t.Helper()
	stop, ended, longest, since := make(chan struct{}), make(chan struct{}), time.Duration(0), time.Now()
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond): // as often as a client may try
			}
			if connection, err := net.DialTimeout("tcp", address, time.Second); err == nil {
				_ = connection.Close()
				longest, since = max(longest, time.Since(since)), time.Now()
			}
		}
	}()
	return func() time.Duration { close(stop); <-ended; return longest }
}

// isAnswered reports whether a client shakes hands with the server at an address.
func isAnswered(address string, client *tls.Config) bool {
	client.InsecureSkipVerify = true
	connection, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", address, client)
	if err == nil {
		_ = connection.Close()
	}
	return err == nil
}
