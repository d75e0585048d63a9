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

// Served checks the certificate that a server presents. It does not check the files, because they may be newer, unreadable or not loaded. Each check and each
// scrape makes one TLS handshake. It is a prometheus.Collector.
type Served struct {
	Address net.Addr
	// Name is the name that API servers verify: the DNS name of the Service, or the DNS name or IP address in the URL of a webhook.
	Name string
	// Authorities is a PEM file with the CAs that API servers trust. If it does not exist, the CA is not checked.
	Authorities string
	Now         func() time.Time
	Log         logr.Logger

	mutex  sync.Mutex
	logged string
}

// Problems of a certificate, as values of a label. Every API server sees the first two. The others depend on the clock of this process, which may be wrong.
const (
	wrongName = "name"
	unknownCA = "authority"
	ended     = "ended"
	early     = "early"
)

// problem is a problem of a certificate, with its text.
type problem struct{ name, text string }

// Check is a healthz.Checker. It fails if there is no certificate, or if every API server refuses the certificate. It does not fail because of dates, which
// API servers compare with their own clocks. If the clock of this process is wrong, requests succeed, but all replicas would become not ready together,
// because nodes may share a time server. If the certificate has really ended, requests fail with this reason, which says more than that the Service has no
// endpoints.
func (s *Served) Check(*http.Request) error {
	chain, err := s.presentedChain()
	if err != nil {
		return err
	}
	problems := s.findProblems(chain)
	s.logProblems(problems)
	for _, found := range problems {
		if found.name == wrongName || found.name == unknownCA {
			err = errors.Join(err, errors.New(found.text))
		}
	}
	return err
}

// presentedChain returns the certificates that the server presents, its own first. It does not verify them: findProblems verifies each aspect separately.
func (s *Served) presentedChain() ([]*x509.Certificate, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	connection, err := tls.DialWithDialer(dialer, s.Address.Network(), s.Address.String(), &tls.Config{InsecureSkipVerify: true, ServerName: s.Name})
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates, nil
}

func (s *Served) findProblems(chain []*x509.Certificate) (all []problem) {
	if err := chain[0].VerifyHostname(s.Name); err != nil {
		all = append(all, problem{wrongName, fmt.Sprintf("the serving certificate: %v", err)})
	}
	if err := s.verifyAuthority(chain); err != nil {
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

// verifyAuthority returns an error if the chain is not valid at any time. If it is valid at some time, it is valid when the validity of its last certificate
// begins.
func (s *Served) verifyAuthority(chain []*x509.Certificate) error {
	content, err := os.ReadFile(s.Authorities)
	if err != nil {
		return nil //nolint:nilerr // there is no CA to compare with
	}
	authorities, err := cert.ParseCertsPEM(content)
	if err != nil {
		return nil //nolint:nilerr // there is no CA to compare with
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

// logProblems logs the problems if they have changed since the last check.
func (s *Served) logProblems(problems []problem) {
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
		"Unix time at which the served certificate ends; absent without a certificate.", nil, nil)
	wrong = prometheus.NewDesc("kiln_webhook_certificate_problem",
		"1 if the served certificate lacks its name, fits no CA, or has ended or is not valid yet by the clock of the process.", []string{"problem"}, nil)
)

// Describe implements prometheus.Collector.
func (s *Served) Describe(all chan<- *prometheus.Desc) {
	all <- notAfter
	all <- wrong
}

// Collect implements prometheus.Collector.
func (s *Served) Collect(all chan<- prometheus.Metric) {
	chain, err := s.presentedChain()
	if err != nil {
		return
	}
	all <- prometheus.MustNewConstMetric(notAfter, prometheus.GaugeValue, float64(chain[0].NotAfter.Unix()))
	found := map[string]float64{wrongName: 0, unknownCA: 0, ended: 0, early: 0}
	for _, problem := range s.findProblems(chain) {
		found[problem.name] = 1
	}
	for name, value := range found {
		all <- prometheus.MustNewConstMetric(wrong, prometheus.GaugeValue, value, name)
	}
}
