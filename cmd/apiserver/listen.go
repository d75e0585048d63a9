package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/subresource"
	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
)

// addServer adds the server to the manager, with a readiness check that makes a handshake, as in the webhook.
func addServer(engine *command.Engine, api *subresource.API, o options, certificate *certs.Serving) error {
	host, text, err := net.SplitHostPort(o.address)
	if err != nil {
		return fmt.Errorf("--api-bind-address '%s': %w", o.address, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("--api-bind-address '%s': %w", o.address, err)
	}
	serving := subresource.Serving{
		Address: cmp.Or(host, "0.0.0.0"), Port: int(port), Access: engine.GetConfig(), Kubeconfig: o.Kubeconfig,
		Certificate: filepath.Join(o.certs, "tls.crt"), Key: filepath.Join(o.certs, "tls.key"),
	}
	address, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(serving.Address, text))
	if err != nil {
		return err
	}
	served := &certs.Served{
		Address: address, Name: cmp.Or(o.name, certs.APIServerHost(o.Namespace)), Authorities: certificate.Authorities(), Now: time.Now,
		Log: ctrl.Log.WithName("certificate"),
	}
	return errors.Join(engine.Add(certificate), engine.Add(&server{api, serving, certificate, engine.Configuration.TLS}),
		engine.AddReadyzCheck("certificate", served.Check), command.Publish([]prometheus.Collector{served, api.Open.Metric()}))
}

// server starts when there is a certificate, because the library reads the certificate at its start.
type server struct {
	api         *subresource.API
	serving     subresource.Serving
	certificate *certs.Serving
	tls         func() (clusterconfig.ServerTLS, <-chan struct{})
}

// Start serves until the context ends.
func (s *server) Start(ctx context.Context) error {
	if !s.certificate.Await(ctx) {
		return nil
	}
	for ctx.Err() == nil {
		if err := s.serve(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serve serves until the context ends or the cluster's TLS configuration changes: the library takes versions and cipher suites only at its start. Requests are
// answered first, and consoles and ports stay open, because http.Server.Shutdown leaves connections that were upgraded. New connections are refused
// until the next server listens.
func (s *server) serve(ctx context.Context) error {
	now, changed := s.tls()
	serving := s.serving
	serving.MinTLSVersion, serving.CipherSuites, serving.HTTP2 = now.MinVersion, now.CipherSuites, now.SpeaksHTTP2()
	generic, err := s.api.Server(serving)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-changed:
			ctrl.Log.WithName("server").Info("listening again, because the TLS configuration has changed")
			stop()
		case <-ctx.Done():
		}
	}()
	return subresource.Run(ctx, generic)
}

// NeedLeaderElection returns false: every replica serves.
func (s *server) NeedLeaderElection() bool { return false }
