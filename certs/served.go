package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/cert"
)

// Served judges the certificate that a server presents, which files do not show: they may be newer, unreadable or never loaded. Each check and each
// scrape makes one TLS handshake. It is a prometheus.Collector.
type Served struct {
	Address net.Addr
	// Name is what API servers verify: the DNS name of the Service, or the name or IP address of a webhook that is called by URL.
	Name string
	// Authorities is a file with the CAs that API servers trust, PEM. Without such a file nobody says which CA is right.
	Authorities string
	Now         func() time.Time
	Log         logr.Logger

	mutex  sync.Mutex
	logged string
}

// Problems of a certificate, values of a label. Every API server sees the first two. The others are what this process's clock says, which may be wrong.
const (
	wrongName = "name"
	unknownCA = "authority"
	ended     = "ended"
	early     = "early"
)

// problem is one of these, and its text.
type problem struct{ name, text string }

// Check is a healthz.Checker. It fails without a certificate, and for a certificate that every API server refuses. It does not fail for dates: API
// servers compare them with their own clocks. If this clock is wrong, requests succeed; and as nodes may share a time server, all
// replicas would become not ready together. If the certificate has really ended, requests fail with the reason, which says
// more than that the Service has no endpoints.
func (s *Served) Check(*http.Request) error {
	chain, err := s.handshake()
	if err != nil {
		return err
	}
	problems := s.problems(chain)
	s.tell(problems)
	for _, found := range problems {
		if found.name == wrongName || found.name == unknownCA {
			err = errors.Join(err, errors.New(found.text))
		}
	}
	return err
}

// handshake returns the certificates that the server presents, its own first. It verifies nothing: problems does, one by one.
func (s *Served) handshake() ([]*x509.Certificate, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	connection, err := tls.DialWithDialer(dialer, s.Address.Network(), s.Address.String(), &tls.Config{InsecureSkipVerify: true, ServerName: s.Name})
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates, nil
}

func (s *Served) problems(chain []*x509.Certificate) (all []problem) {
	if err := chain[0].VerifyHostname(s.Name); err != nil {
		all = append(all, problem{wrongName, fmt.Sprintf("the serving certificate: %v", err)})
	}
	if err := s.signed(chain); err != nil {
		all = append(all, problem{unknownCA, fmt.Sprintf("the serving certificate fits no CA of %s: %v", s.Authorities, err)})
	}
	begin, end := chain[0].NotBefore.UTC(), chain[0].NotAfter.UTC()
	switch now := s.Now(); {
	case now.After(end):
		all = append(all, problem{ended, fmt.Sprintf("the serving certificate has ended at %s, or the clock is wrong", end.Format(time.RFC3339))})
	case now.Before(begin):
		all = append(all, problem{early, fmt.Sprintf("the serving certificate is valid from %s, or the clock is wrong", begin.Format(time.RFC3339))})
	}
	return all
}

// signed verifies that there is an instant at which the chain is valid, whatever the clock says. If there is one, it is valid when the last of its
// certificates begins.
func (s *Served) signed(chain []*x509.Certificate) error {
	content, err := os.ReadFile(s.Authorities)
	if err != nil {
		return nil //nolint:nilerr // no CA is known
	}
	authorities, err := cert.ParseCertsPEM(content)
	if err != nil {
		return nil //nolint:nilerr // nor here
	}
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
	for _, authority := range authorities {
		options.Roots.AddCert(authority)
	}
	for _, intermediate := range chain[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	for _, certificate := range append(authorities, chain...) {
		options.CurrentTime = certificate.NotBefore
		if _, err = chain[0].Verify(options); err == nil {
			return nil
		}
	}
	return err
}

// tell logs problems when they change, not at every check.
func (s *Served) tell(problems []problem) {
	text := ""
	for i, found := range problems {
		if i > 0 {
			text += "; "
		}
		text += found.text
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if text == s.logged {
		return
	}
	s.logged = text
	if text == "" {
		s.Log.Info("the serving certificate has no problem any more")
		return
	}
	s.Log.Error(errors.New(text), "API servers may refuse the serving certificate")
}

var (
	notAfter = prometheus.NewDesc("kiln_webhook_certificate_not_after_seconds",
		"Unix time at which the certificate that is served ends; absent without one.", nil, nil)
	wrong = prometheus.NewDesc("kiln_webhook_certificate_problem",
		"1 where the certificate that is served lacks its name, fits no CA, or has ended or is early by the clock of the process.", []string{"problem"}, nil)
)

// Describe is for prometheus.Collector.
func (s *Served) Describe(all chan<- *prometheus.Desc) {
	all <- notAfter
	all <- wrong
}

// Collect is for prometheus.Collector.
func (s *Served) Collect(all chan<- prometheus.Metric) {
	chain, err := s.handshake()
	if err != nil {
		return
	}
	all <- prometheus.MustNewConstMetric(notAfter, prometheus.GaugeValue, float64(chain[0].NotAfter.Unix()))
	found := map[string]float64{wrongName: 0, unknownCA: 0, ended: 0, early: 0}
	for _, problem := range s.problems(chain) {
		found[problem.name] = 1
	}
	for name, value := range found {
		all <- prometheus.MustNewConstMetric(wrong, prometheus.GaugeValue, value, name)
	}
}
