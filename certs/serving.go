package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Serving is the current certificate of this process. It is a manager.Runnable that runs in every replica.
type Serving struct {
	dir     string
	watcher atomic.Pointer[certwatcher.CertWatcher]
}

// Watch returns a Serving whose Start reads DIR/tls.crt and DIR/tls.key, and follows their changes. The files need not exist yet: with the built-in rotation,
// the first replica starts before there is a certificate.
func Watch(dir string) *Serving { return &Serving{dir: dir} }

// Authorities returns the path of the file with the CAs that API servers trust. The rotation and cert-manager write it beside the certificate. Other signers
// need not write it.
func (s *Serving) Authorities() string { return filepath.Join(s.dir, caFile) }

var errNoCertificate = errors.New("no serving certificate yet")

// GetCertificate is a function for tls.Config. Until there is a certificate, handshakes fail, and the readiness check, which makes a handshake, fails, too.
func (s *Serving) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	watcher := s.watcher.Load()
	if watcher == nil {
		return nil, errNoCertificate
	}
	return watcher.GetCertificate(hello)
}

// Current returns the current certificate, for a client that shows it.
func (s *Serving) Current() (*tls.Certificate, error) { return s.GetCertificate(nil) }

// Await waits for the first certificate. It returns false if the context ends before.
func (s *Serving) Await(ctx context.Context) bool {
	return wait.PollUntilContextCancel(ctx, appears, true, func(context.Context) (bool, error) { return s.watcher.Load() != nil, nil }) == nil
}

const (
	// appears is the interval at which Start looks for the first certificate, which appears once in the life of a cluster.
	appears = 500 * time.Millisecond
	// rereads is the interval at which the files are read in addition to their watch: some mounts send no events, and certificate and key may be replaced one
	// after the other.
	rereads = time.Second
)

// Start waits for the files and then follows them until the context ends.
func (s *Serving) Start(ctx context.Context) error {
	log, waits := ctrl.Log.WithName("certificate"), false
	err := wait.PollUntilContextCancel(ctx, appears, true, func(context.Context) (bool, error) {
		watcher, err := certwatcher.New(filepath.Join(s.dir, certificateFile), filepath.Join(s.dir, keyFile))
		if err != nil { // the files do not exist yet, or only one of them
			if !waits {
				log.Info("waiting for the serving certificate: not ready until then", "folder", s.dir, "reason", err.Error())
			}
			waits = true
			return false, nil
		}
		if waits {
			log.Info("the serving certificate is there")
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
