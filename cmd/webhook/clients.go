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

// clients says whose requests are answered: those with a client certificate of an authority in a file. An empty file name means everybody's, as
// Kubernetes has it by default: an API server shows no certificate to a webhook unless its own configuration says so.
type clients struct {
	file string
	// names are the common names that count. None means each one of the authority.
	names []string
}

// verified has a server verify the certificate of each client that shows one. The file is read at each handshake, so that a new authority counts
// without a restart; API servers keep their connections, so that handshakes are few. With a file that cannot be read no handshake succeeds.
//
// The handshake succeeds without a certificate too, and only a request is refused: the API server tells its user the text of an HTTP answer, and
// of a failed handshake a code.
func (c clients) verified(config *tls.Config) *tls.Config {
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
		one.SessionTicketsDisabled = true // a session that is resumed would count by the authorities of its first handshake
		if !one.ClientCAs.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("--client-ca-file '%s' holds no certificate", c.file)
		}
		return one, nil
	}
	return config
}

// only refuses requests of others with status 403, before anything of them is read.
func (c clients) only(next http.Handler) http.Handler {
	if c.file == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.judge(r.TLS); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// judge tells administrators what is wrong: the API server quotes it in its answer and its log.
func (c clients) judge(connection *tls.ConnectionState) error {
	if connection == nil || len(connection.VerifiedChains) == 0 {
		return fmt.Errorf("this webhook answers API servers with a client certificate alone, and this one shows none: " +
			"its flag --admission-control-config-file must name a kubeconfig for webhooks")
	}
	name := connection.VerifiedChains[0][0].Subject.CommonName
	if len(c.names) > 0 && !slices.Contains(c.names, name) {
		return fmt.Errorf("the client certificate has the common name '%s', want one of --client-allowed-names: %s", name, strings.Join(c.names, ", "))
	}
	return nil
}
