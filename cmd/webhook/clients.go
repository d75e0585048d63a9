package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
)

// clients limits the clients of the webhook to those with a certificate of an authority in a file. Without a file, requests of all clients are answered,
// because by default an API server shows no certificate to a webhook.
type clients struct {
	file string
	// names are the allowed common names. If there are none, all certificates of the authorities are allowed.
	names []string
}

// verifiedConfig returns a configuration that verifies the certificate of each client that shows one. It reads the file at each handshake, so that a new
// authority takes effect without a restart. Handshakes are few, because API servers keep their connections. If the file cannot be read, no handshake succeeds.
// The handshake succeeds without a certificate, too, and only the request is refused, because the API server quotes the text of an HTTP answer, but only the
// code of a failed handshake.
func (c clients) verifiedConfig(config *tls.Config) *tls.Config {
	if c.file == "" {
		return config
	}
	config = config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		raw, err := os.ReadFile(c.file)
		if err != nil {
			return nil, fmt.Errorf("reading --client-ca-file: %w", err)
		}
		one := config.Clone()
		one.ClientAuth, one.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		one.SessionTicketsDisabled = true // a resumed session would use the authorities of its first handshake
		if !one.ClientCAs.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("--client-ca-file '%s' holds no certificate", c.file)
		}
		return one, nil
	}
	return config
}

// refuseOthers refuses requests of other clients with status 403, before it reads their bodies.
func (c clients) refuseOthers(next http.Handler) http.Handler {
	if c.file == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.judgeClient(r.TLS); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// judgeClient returns an error for a client that is not allowed. Its text is for administrators: the API server quotes it in its answer and its log.
func (c clients) judgeClient(connection *tls.ConnectionState) error {
	if connection == nil || len(connection.VerifiedChains) == 0 {
		return fmt.Errorf("this webhook answers only API servers with a client certificate, and this one shows none: " +
			"its flag --admission-control-config-file must name a kubeconfig for webhooks")
	}
	name := connection.VerifiedChains[0][0].Subject.CommonName
	if len(c.names) > 0 && !slices.Contains(c.names, name) {
		return fmt.Errorf("the client certificate has the common name '%s', want one of --client-allowed-names: %s", name, strings.Join(c.names, ", "))
	}
	return nil
}
