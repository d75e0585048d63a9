package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Serving is the certificate in use. It is a manager.Runnable on every replica, leader or not, and a
// prometheus.Collector of kiln_webhook_certificate_not_after_seconds (Unix time; absent without one).
type Serving struct {
	dir      string
	watcher  atomic.Pointer[certwatcher.CertWatcher]
	notAfter *prometheus.Desc
}

// Watch serves DIR/tls.crt and DIR/tls.key once its Start runs. The files need not exist yet: with the
// built-in rotation a first replica starts before there is a certificate.
func Watch(dir string) *Serving {
	return &Serving{dir: dir, notAfter: prometheus.NewDesc("kiln_webhook_certificate_not_after_seconds",
		"Unix time at which the serving certificate in use ends.", nil, nil)}
}

var errNoCertificate = errors.New("no serving certificate yet")

// GetCertificate is for tls.Config. Until there is a certificate, handshakes fail, and so does the
// readiness check that makes one.
func (s *Serving) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	watcher := s.watcher.Load()
	if watcher == nil {
		return nil, errNoCertificate
	}
	return watcher.GetCertificate(hello)
}

const (
	// appears is the interval at which a first certificate is looked for. It appears once in the life of a cluster; kubelet takes a minute to mount it.
	appears = 500 * time.Millisecond
	// rereads is the interval at which the files are read, besides their watch: some mounts send no events, and certificate and key may be
	// replaced one after the other.
	rereads = time.Second
)

// Start waits for the files and then follows them until the context ends.
func (s *Serving) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, appears, true, func(context.Context) (bool, error) {
		watcher, err := certwatcher.New(filepath.Join(s.dir, certificateFile), filepath.Join(s.dir, keyFile))
		if err != nil {
			return false, nil //nolint:nilerr // not there yet, or only one of the two
		}
		s.watcher.Store(watcher.WithWatchInterval(rereads))
		return true, nil
	})
	if err != nil {
		return nil //nolint:nilerr // the context has ended before there was a certificate
	}
	return s.watcher.Load().Start(ctx)
}

// NeedLeaderElection returns false: every replica answers webhooks.
func (s *Serving) NeedLeaderElection() bool { return false }

// Describe is for prometheus.Collector.
func (s *Serving) Describe(all chan<- *prometheus.Desc) { all <- s.notAfter }

// Collect is for prometheus.Collector.
func (s *Serving) Collect(all chan<- prometheus.Metric) {
	certificate, err := s.GetCertificate(nil)
	if err != nil {
		return
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return
	}
	all <- prometheus.MustNewConstMetric(s.notAfter, prometheus.GaugeValue, float64(leaf.NotAfter.Unix()))
}
