// Package certs provides the serving certificates of the webhook and of the API server of subresources, and gives their CAs to Kubernetes' API server. The
// webhook and the API server of subresources have different CAs, because launchers accept every client certificate that the CA of the API server has signed.
// A cluster uses one of two ways. Rotate and RotateAPIServer run the built-in rotation: Kiln's controller signs a certificate, keeps it in a Secret and
// writes the CA into the webhook configurations or APIServices. Issuers and Certificates return the objects by which cert-manager does the same. In both ways
// the process gets the certificate as files, and Watch serves them and their successors without a restart.
package certs

// Names of objects in manifests/webhook. Mutating and Validating are the webhook configurations that need the CA.
const (
	Service    = "kiln-webhook"
	Secret     = "kiln-webhook-tls"
	Mutating   = "kiln-mutating"
	Validating = "kiln-validating"

	// APIServerService and APIServerSecret are names of objects in manifests/apiserver.
	APIServerService = "kiln-apiserver"
	APIServerSecret  = "kiln-apiserver-tls"

	caFile          = "ca.crt"
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// Host returns the DNS name by which an API server calls the webhook's Service. The name does not include the cluster's domain.
func Host(namespace string) string { return Service + "." + namespace + ".svc" }

// APIServices are the names of the APIServices of subresources.kubevirt.io, which need the CA.
var APIServices = []string{"v1.subresources.kubevirt.io", "v1alpha3.subresources.kubevirt.io"}

// APIServerHost returns the DNS name by which Kubernetes' API server calls the API server of subresources. Launchers require a client certificate with this
// name.
func APIServerHost(namespace string) string { return APIServerService + "." + namespace + ".svc" }
