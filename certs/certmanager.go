package certs

import (
	"time"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InjectCAFrom is the annotation by which cert-manager puts the CA into a webhook configuration.
const InjectCAFrom = "cert-manager.io/inject-ca-from"

const (
	selfSigned = "kiln-selfsigned"
	authority  = "kiln-webhook-ca"

	// The CA outlives its certificates by far, so that a renewal changes what is served but not what
	// is trusted: cert-manager injects one CA only, the newest, and so has no overlap of two.
	authorityLifetime = 10 * 365 * 24 * time.Hour
	lifetime          = 90 * 24 * time.Hour
	renewal           = 30 * 24 * time.Hour
)

// InjectedFrom returns the value of InjectCAFrom, NAMESPACE/CERTIFICATE.
func InjectedFrom(namespace string) string { return namespace + "/" + Service }

// Issuers returns the self-signed issuer of the CA, and the issuer that signs with the CA.
func Issuers(namespace string) []*certmanager.Issuer {
	return []*certmanager.Issuer{
		issuer(namespace, selfSigned, certmanager.IssuerConfig{SelfSigned: &certmanager.SelfSignedIssuer{}}),
		issuer(namespace, authority, certmanager.IssuerConfig{CA: &certmanager.CAIssuer{SecretName: authority}}),
	}
}

func issuer(namespace, name string, config certmanager.IssuerConfig) *certmanager.Issuer {
	return &certmanager.Issuer{
		TypeMeta:   metav1.TypeMeta{APIVersion: certmanager.SchemeGroupVersion.String(), Kind: certmanager.IssuerKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       certmanager.IssuerSpec{IssuerConfig: config},
	}
}

// Certificates returns the CA and the webhook's serving certificate.
func Certificates(namespace string) []*certmanager.Certificate {
	return []*certmanager.Certificate{
		certificate(namespace, authority, certmanager.CertificateSpec{
			IsCA:       true,
			CommonName: authority,
			SecretName: authority,
			Duration:   &metav1.Duration{Duration: authorityLifetime},
			IssuerRef:  reference(selfSigned),
			Usages:     []certmanager.KeyUsage{certmanager.UsageCertSign, certmanager.UsageDigitalSignature},
		}),
		certificate(namespace, Service, certmanager.CertificateSpec{
			SecretName:  Secret,
			DNSNames:    []string{Host(namespace)},
			Duration:    &metav1.Duration{Duration: lifetime},
			RenewBefore: &metav1.Duration{Duration: renewal},
			IssuerRef:   reference(authority),
			Usages:      []certmanager.KeyUsage{certmanager.UsageServerAuth, certmanager.UsageDigitalSignature},
		}),
	}
}

func certificate(namespace, name string, spec certmanager.CertificateSpec) *certmanager.Certificate {
	spec.PrivateKey = &certmanager.CertificatePrivateKey{
		Algorithm: certmanager.ECDSAKeyAlgorithm, Size: 256, RotationPolicy: certmanager.RotationPolicyAlways,
	}
	return &certmanager.Certificate{
		TypeMeta:   metav1.TypeMeta{APIVersion: certmanager.SchemeGroupVersion.String(), Kind: certmanager.CertificateKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       spec,
	}
}

func reference(name string) cmmeta.IssuerReference {
	return cmmeta.IssuerReference{Group: certmanager.SchemeGroupVersion.Group, Kind: certmanager.IssuerKind, Name: name}
}
