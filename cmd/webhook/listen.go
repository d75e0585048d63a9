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

// lastRequests is the time that open requests may take after the server was stopped. API servers wait at most 30 seconds for a webhook.
const lastRequests = time.Minute

// endpoint is the address that API servers call, with its clients, the name that its certificate must have, and its hooks by URL path.
type endpoint struct {
	address, name string
	clients       clients
	certificate   *certs.Serving
	hooks         map[string]admission.Hook
	// stopping is done when the process was asked to stop. It serves on for a while.
	stopping context.Context
}

// listen adds the server of the webhooks, and a readiness check and metrics of the certificate that it serves. controller-runtime's own server has no
// ReadTimeout, and no way to set one: a client that sends a byte now and then could keep its connection forever.
func listen(mgr ctrl.Manager, at endpoint) error {
	// Register wraps each hook with the metrics of requests that every controller-runtime webhook has. This server itself is never started.
	measured := webhook.NewServer(webhook.Options{})
	for path, hook := range at.hooks {
		measured.Register(path, hook)
	}
	listener, err := tls.Listen("tcp", at.address, at.clients.verified(&tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: at.certificate.GetCertificate,
		// HTTP/2 would put all requests of an API server on one connection, and so on one replica.
		NextProtos: []string{"http/1.1"},
	}))
	if err != nil {
		return err
	}
	server := &manager.Server{
		Name: "webhooks", Listener: listener, ShutdownTimeout: new(lastRequests),
		Server: admission.NewHTTPServer(drained(at.stopping, at.clients.only(measured.WebhookMux()))),
	}
	served := &certs.Served{
		Address: listener.Addr(), Name: at.name, Authorities: at.certificate.Authorities(), Now: time.Now, Log: ctrl.Log.WithName("certificate"),
	}
	return errors.Join(mgr.Add(at.certificate), mgr.Add(server), mgr.AddReadyzCheck("certificate", served.Check), metrics.Registry.Register(served))
}

// drained ends each connection with its next answer once the process is to stop. API servers keep connections, and send their requests on them as long
// as they are open, whatever a Service says. http.Server.Shutdown closes idle ones at once: a request that is just being sent on
// one fails, and an API server does not repeat it.
func drained(stopping context.Context, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stopping.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}
