// Package launcherserver is the server of a launcher in its pod: it serves the console and the display of its guest, and actions on the running guest. Its
// only client is Kiln's API server of subresources, which has authorized the caller by Kubernetes. The server listens in the network of the pod, which the
// guest and every pod of the cluster may reach. A client must show a certificate of the authorities that the GuestPod names. The server shows a certificate
// with a key that it creates at its start, and reports the digest of the certificate. So neither side can be impersonated.
package launcherserver

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Guest is the started guest.
type Guest struct {
	Owner hypervisor.Owner
	// Console and Display are paths of QEMU's sockets; empty for a guest without one.
	Console, Display string
}

// Actions act on a guest. hypervisor.Libvirt implements it; tests use a fake.
type Actions interface {
	Suspend(ctx context.Context, owner hypervisor.Owner) error
	Resume(ctx context.Context, owner hypervisor.Owner) error
	Reset(ctx context.Context, owner hypervisor.Owner) error
	Reboot(ctx context.Context, owner hypervisor.Owner) error
	Freeze(ctx context.Context, owner hypervisor.Owner) error
	Thaw(ctx context.Context, owner hypervisor.Owner) error
	Agent(ctx context.Context, owner hypervisor.Owner) (hypervisor.AgentAnswers, error)
	Statistics(ctx context.Context, owner hypervisor.Owner) (hypervisor.Statistics, error)
}

// Server serves one guest.
type Server struct {
	actions Actions
	// clients returns spec.clients of the current GuestPod; nil if it has none.
	clients     func() *v1alpha1.GuestPodClients
	certificate tls.Certificate
	guest       atomic.Pointer[Guest]
	console     session
	display     session
	thaw        thawTimer
}

// New returns a server with a new key.
func New(actions Actions, clients func() *v1alpha1.GuestPodClients) (*Server, error) {
	certificate, err := newCertificate()
	return &Server{actions: actions, clients: clients, certificate: certificate}, err
}

// Certificate returns the digest of the server's certificate, for its GuestPod.
func (s *Server) Certificate() string { return DigestOf(s.certificate.Leaf) }

// Serve sets the guest after it was started. Before that, every request is refused.
func (s *Server) Serve(guest Guest) { s.guest.Store(&guest) }

const (
	// headerLimit bounds the time for a handshake and the headers of a request.
	headerLimit = 3 * time.Second
	// largestBody and largestHeader bound the body and the headers of a request, in bytes.
	largestBody   = 64 << 10
	largestHeader = 16 << 10
)

// Listen opens the port of launchers. The caller opens it before the guest starts, because passt takes free ports.
func Listen() (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(v1alpha1.LauncherPort)))
}

// Run serves on a listener until the context ends. The end of the context ends all streams.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return handshakeConfig(s.certificate, s.clients()) },
	}
	server := &http.Server{
		Handler: s.routes(), ReadHeaderTimeout: headerLimit, IdleTimeout: headerLimit, MaxHeaderBytes: largestHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    nil,
	}
	context.AfterFunc(ctx, func() { server.Close() })
	err := server.Serve(newGate(listener, config))
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	ctrl.LoggerFrom(ctx).Error(err, "consoles are no longer served")
	return err
}
