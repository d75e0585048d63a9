package certs

import (
	"time"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InjectCAFrom is the annotation by which cert-manager puts the CA into a webhook configuration or an APIService.
const InjectCAFrom = "cert-manager.io/inject-ca-from"

const (
	selfSigned = "kiln-selfsigned"
	// The two processes have different CAs, see the comment of the package.
	authority          = "kiln-webhook-ca"
	apiServerAuthority = "kiln-apiserver-ca"

	// The CA is valid for much longer than its certificates, so that their renewal does not change the trusted CA: cert-manager injects only the newest CA, and
	// so cannot overlap two of them.
	authorityLifetime = 10 * 365 * 24 * time.Hour
	lifetime          = 90 * 24 * time.Hour
	renewal           = 30 * 24 * time.Hour
)

// InjectedFrom returns the value of InjectCAFrom for webhook configurations, NAMESPACE/CERTIFICATE.
func InjectedFrom(namespace string) string { return namespace + "/" + Service }

// APIServerInjectedFrom returns the value of InjectCAFrom for APIServices.
func APIServerInjectedFrom(namespace string) string { return namespace + "/" + APIServerService }

// Issuers returns the self-signed issuer of all CAs, and the issuer that signs with the CA of the webhook.
func Issuers(namespace string) []*certmanager.Issuer {
	return []*certmanager.Issuer{
		newIssuer(namespace, selfSigned, certmanager.IssuerConfig{SelfSigned: &certmanager.SelfSignedIssuer{}}),
		caIssuer(namespace, authority),
	}
}

// APIServerIssuers returns the issuer that signs with the CA of the API server of subresources.
func APIServerIssuers(namespace string) []*certmanager.Issuer {
	return []*certmanager.Issuer{caIssuer(namespace, apiServerAuthority)}
}

// caIssuer returns an issuer that signs with the CA in the Secret of the same name.
func caIssuer(namespace, name string) *certmanager.Issuer {
	return newIssuer(namespace, name, certmanager.IssuerConfig{CA: &certmanager.CAIssuer{SecretName: name}})
}

func newIssuer(namespace, name string, config certmanager.IssuerConfig) *certmanager.Issuer {
	return &certmanager.Issuer{
		TypeMeta:   metav1.TypeMeta{APIVersion: certmanager.SchemeGroupVersion.String(), Kind: certmanager.IssuerKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       certmanager.IssuerSpec{IssuerConfig: config},
	}
}

// Certificates returns the CA and the webhook's serving certificate.
func Certificates(namespace string) []*certmanager.Certificate {
	return []*certmanager.Certificate{
		caCertificate(namespace, authority),
		newCertificate(namespace, Service, servedSpec(authority, Secret, Host(namespace), certmanager.UsageServerAuth)),
	}
}

// APIServerCertificates returns the CA and the certificate of the API server of subresources. The certificate is a client certificate, too, because launchers
// require one.
func APIServerCertificates(namespace string) []*certmanager.Certificate {
	return []*certmanager.Certificate{
		caCertificate(namespace, apiServerAuthority),
		newCertificate(namespace, APIServerService,
			servedSpec(apiServerAuthority, APIServerSecret, APIServerHost(namespace), certmanager.UsageServerAuth, certmanager.UsageClientAuth)),
	}
}

// caCertificate returns a CA in the Secret of the same name.
func caCertificate(namespace, name string) *certmanager.Certificate {
	return newCertificate(namespace, name, certmanager.CertificateSpec{
		IsCA:       true,
		CommonName: name,
		SecretName: name,
		Duration:   &metav1.Duration{Duration: authorityLifetime},
		IssuerRef:  issuerReference(selfSigned),
		Usages:     []certmanager.KeyUsage{certmanager.UsageCertSign, certmanager.UsageDigitalSignature},
	})
}

// servedSpec returns the spec of a certificate for a DNS name.
func servedSpec(issuer, secret, host string, usages ...certmanager.KeyUsage) certmanager.CertificateSpec {
	return certmanager.CertificateSpec{
		SecretName:  secret,
		DNSNames:    []string{host},
		Duration:    &metav1.Duration{Duration: lifetime},
		RenewBefore: &metav1.Duration{Duration: renewal},
		IssuerRef:   issuerReference(issuer),
		Usages:      append(usages, certmanager.UsageDigitalSignature),
	}
}

func newCertificate(namespace, name string, spec certmanager.CertificateSpec) *certmanager.Certificate {
	spec.PrivateKey = &certmanager.CertificatePrivateKey{
		Algorithm: certmanager.ECDSAKeyAlgorithm, Size: 256, RotationPolicy: certmanager.RotationPolicyAlways,
	}
	return &certmanager.Certificate{
		TypeMeta:   metav1.TypeMeta{APIVersion: certmanager.SchemeGroupVersion.String(), Kind: certmanager.CertificateKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       spec,
	}
}

func issuerReference(name string) cmmeta.IssuerReference {
	return cmmeta.IssuerReference{Group: certmanager.SchemeGroupVersion.Group, Kind: certmanager.IssuerKind, Name: name}
}
