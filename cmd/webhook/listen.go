package main

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/internal/admission"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// lastRequests is the time that open requests may take after the server was stopped. API servers wait at most 30 seconds for a webhook.
const lastRequests = time.Minute

// endpoint is the address that API servers call, with its certificate and its hooks by URL path.
type endpoint struct {
	address     string
	certificate *certs.Serving
	hooks       map[string]admission.Hook
}

// follow serves the certificate of a folder, and reports its expiry in a metric. The files may come later and change: the kubelet replaces those
// of a mounted Secret.
func follow(mgr ctrl.Manager, dir string) (*certs.Serving, error) {
	certificate := certs.Watch(dir)
	return certificate, errors.Join(mgr.Add(certificate), metrics.Registry.Register(certificate))
}

// listen adds the server of the webhooks and its readiness check. controller-runtime's own server has no ReadTimeout, and no way to set one: a
// client that sends a byte now and then could keep its connection forever.
func listen(mgr ctrl.Manager, at endpoint) error {
	// Register wraps each hook with the metrics of requests that every controller-runtime webhook has. This server itself is never started.
	measured := webhook.NewServer(webhook.Options{})
	for path, hook := range at.hooks {
		measured.Register(path, hook)
	}
	listener, err := tls.Listen("tcp", at.address, &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: at.certificate.GetCertificate,
		// HTTP/2 would put all requests of an API server on one connection, and so on one replica.
		NextProtos: []string{"http/1.1"},
	})
	if err != nil {
		return err
	}
	server := &manager.Server{
		Name: "webhooks", Listener: listener, Server: admission.NewHTTPServer(measured.WebhookMux()), ShutdownTimeout: new(lastRequests),
	}
	return errors.Join(mgr.Add(server), mgr.AddReadyzCheck("listener", answers(listener.Addr())))
}

// answers checks that a server completes a TLS handshake, which it does once it is started and has a certificate. Before that the process is not
// ready: API servers would fail requests with failurePolicy Fail.
func answers(address net.Addr) healthz.Checker {
	return func(*http.Request) error {
		dialer := &net.Dialer{Timeout: time.Second}
		connection, err := tls.DialWithDialer(dialer, address.Network(), address.String(), &tls.Config{InsecureSkipVerify: true}) // it is this process
		if err != nil {
			return err
		}
		return connection.Close()
	}
}
