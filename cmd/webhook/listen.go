package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"time"

	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/internal/admission"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// lastRequests is how long open requests may take after the server was stopped. API servers wait at most 30 seconds for a webhook.
const lastRequests = time.Minute

// endpoint is the address that API servers call, with its allowed clients, the name that its certificate must have, and its hooks by URL path.
type endpoint struct {
	address, name string
	clients       clients
	certificate   *certs.Serving
	// followTLS makes the server follow the cluster's versions and cipher suites.
	followTLS func(*tls.Config)
	hooks     map[string]admission.Hook
	// stopping ends when the process is asked to stop. The process continues to serve for a while.
	stopping context.Context
	self     *admission.SelfTest
}

// addServer adds the server of the webhooks, a readiness check and metrics of its certificate, and a readiness check of its speed. It does not use
// controller-runtime's own server, which has no ReadTimeout: a client that sends a byte now and then could keep its connection forever.
func addServer(mgr ctrl.Manager, at endpoint) error {
	// Register wraps each hook with controller-runtime's metrics of requests. This server itself is never started.
	measured := webhook.NewServer(webhook.Options{})
	for path, hook := range at.hooks {
		measured.Register(path, hook)
	}
	secured := at.clients.verifiedConfig(&tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: at.certificate.GetCertificate,
		// With HTTP/2 an API server would send all requests on one connection, and so to one replica.
		NextProtos: []string{"http/1.1"},
	})
	at.followTLS(secured)
	listener, err := tls.Listen("tcp", at.address, secured)
	if err != nil {
		return err
	}
	server := &manager.Server{
		Name: "webhooks", Listener: listener, ShutdownTimeout: new(lastRequests),
		Server: admission.NewHTTPServer(drainConnections(at.stopping, at.self.Slow, at.clients.refuseOthers(measured.WebhookMux()))),
	}
	served := &certs.Served{
		Address: listener.Addr(), Name: at.name, Authorities: at.certificate.Authorities(), Now: time.Now, Log: ctrl.Log.WithName("certificate"),
	}
	return errors.Join(mgr.Add(at.certificate), mgr.Add(server), mgr.AddReadyzCheck("certificate", served.Check), mgr.AddReadyzCheck("self-test", at.self.Check),
		metrics.Registry.Register(served))
}

// drainConnections closes each connection with its next answer after the process was asked to stop, or while it is slow. API servers keep connections, and use
// them even after the pod was removed from the Service. http.Server.Shutdown closes idle connections at once: a request that is just being sent on one fails,
// and an API server does not repeat it.
func drainConnections(stopping context.Context, slow func() bool, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stopping.Err() != nil || slow() {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}
