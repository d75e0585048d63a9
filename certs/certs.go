// Package certs gives the webhook and the API server of subresources their serving certificates, and Kubernetes' API server the CAs to trust them by. The
// webhook and the API server have different CAs, because launchers accept every client certificate that the CA of the API server has signed.
//
// There are two ways, of which a cluster uses one. Rotate and RotateAPIServer run the built-in rotation: Kiln's controller signs a certificate, keeps it in a
// Secret and puts the CA into the webhook configurations or APIServices. Issuers and Certificates give the cert-manager objects that do the same where
// cert-manager is installed. In both the certificate reaches the process as files, and Watch serves them, and their successors, without a restart.
package certs

// Names in manifests/webhook. Mutating and Validating are the webhook configurations that need the CA.
const (
	Service    = "kiln-webhook"
	Secret     = "kiln-webhook-tls"
	Mutating   = "kiln-mutating"
	Validating = "kiln-validating"

	// APIServerService and APIServerSecret are those of manifests/apiserver.
	APIServerService = "kiln-apiserver"
	APIServerSecret  = "kiln-apiserver-tls"

	caFile          = "ca.crt"
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// Host returns the name by which an API server calls the webhook's Service: without the cluster's domain, and never an IP address.
func Host(namespace string) string { return Service + "." + namespace + ".svc" }

// APIServices are the names of the APIServices of subresources.kubevirt.io, which need the CA.
var APIServices = []string{"v1.subresources.kubevirt.io", "v1alpha3.subresources.kubevirt.io"}

// APIServerHost returns the name by which Kubernetes' API server calls that of subresources. Launchers want a certificate with this name.
func APIServerHost(namespace string) string { return APIServerService + "." + namespace + ".svc" }
