package launcherserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// newCertificate creates a key for this start, and a certificate with it. Clients compare the certificate with the one that the GuestPod names, so its other
// fields have no meaning.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	// Nobody verifies the dates, because the clock of a node may be wrong.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "launcher"}, NotAfter: time.Unix(1<<37, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// DigestOf returns the digest of a certificate in the form of status.serverCertificate of GuestPods: 'sha256:' and the SHA-256 of its DER in hexadecimal
// digits.
func DigestOf(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// handshakeConfig returns the configuration of a handshake. The client must show a certificate that one of clients.authorities has signed, with the DNS name
// clients.name.
func handshakeConfig(own tls.Certificate, clients *v1alpha1.GuestPodClients) (*tls.Config, error) {
	if clients == nil {
		return nil, errors.New("the GuestPod names no clients")
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM([]byte(clients.Authorities)) {
		return nil, errors.New("spec.clients.authorities of the GuestPod holds no certificate")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, NextProtos: []string{"http/1.1"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities,
		SessionTicketsDisabled: true, // a resumed session would use the authorities of its first handshake
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := state.PeerCertificates[0].VerifyHostname(clients.Name); err != nil {
				return fmt.Errorf("the client is not '%s': %w", clients.Name, err)
			}
			return nil
		},
	}, nil
}
