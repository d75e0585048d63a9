// Package certs gives the webhook its serving certificate and the API server the CA to trust it by.
//
// There are two ways, of which a cluster uses one. Rotate runs the built-in rotation: Kiln's controller signs
// the certificate, keeps it in a Secret and puts the CA into the webhook configurations. Issuers and Certificates give
// the cert-manager objects that do the same where cert-manager is installed. In both the certificate
// reaches the webhook as files, and Watch serves them, and their successors, without a restart.
package certs

// Names in manifests/webhook. Mutating and Validating are the webhook configurations that need the CA.
const (
	Service    = "kiln-webhook"
	Secret     = "kiln-webhook-tls"
	Mutating   = "kiln-mutating"
	Validating = "kiln-validating"

	caFile          = "ca.crt"
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// Host returns the name by which an API server calls the webhook's Service: without the cluster's domain, and never an IP address.
func Host(namespace string) string { return Service + "." + namespace + ".svc" }
