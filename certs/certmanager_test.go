package certs

import (
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
)

// TestCertManager: each process has a certificate of its own CA, with the usages that it needs, in the Secret that its Deployment mounts.
func TestCertManager(t *testing.T) {
	issuers := map[string]certmanager.IssuerConfig{}
	for _, one := range append(Issuers("vms"), APIServerIssuers("vms")...) {
		if _, twice := issuers[one.Name]; twice || one.Namespace != "vms" {
			t.Errorf("issuer '%s' in namespace '%s' is there twice, or elsewhere", one.Name, one.Namespace)
		}
		issuers[one.Name] = one.Spec.IssuerConfig
	}
	type signed struct {
		Secret, CA string
		Names      []string
		Usages     []certmanager.KeyUsage
	}
	for _, c := range []struct {
		why  string
		got  []*certmanager.Certificate
		want signed
	}{
		{"the webhook serves API servers", Certificates("vms"), signed{
			"kiln-webhook-tls", "kiln-webhook-ca", []string{"kiln-webhook.vms.svc"},
			[]certmanager.KeyUsage{certmanager.UsageServerAuth, certmanager.UsageDigitalSignature},
		}},
		{"the API server of subresources shows its certificate to launchers, too", APIServerCertificates("vms"), signed{
			"kiln-apiserver-tls", "kiln-apiserver-ca", []string{"kiln-apiserver.vms.svc"},
			[]certmanager.KeyUsage{certmanager.UsageServerAuth, certmanager.UsageClientAuth, certmanager.UsageDigitalSignature},
		}},
	} {
		if len(c.got) != 2 {
			t.Fatalf("%s: %d certificates, want a CA and one of it", c.why, len(c.got))
		}
		ca, own := c.got[0], c.got[1]
		if !ca.Spec.IsCA || issuers[ca.Spec.IssuerRef.Name].SelfSigned == nil {
			t.Errorf("%s: the first is no CA that signs itself: %+v", c.why, ca.Spec)
		}
		signer := issuers[own.Spec.IssuerRef.Name].CA
		if signer == nil {
			t.Fatalf("%s: issuer '%s' has no CA", c.why, own.Spec.IssuerRef.Name)
		}
		if signer.SecretName != ca.Spec.SecretName || own.Spec.IsCA {
			t.Errorf("%s: signed by '%s', want the CA in '%s'", c.why, signer.SecretName, ca.Spec.SecretName)
		}
		got := signed{own.Spec.SecretName, ca.Name, own.Spec.DNSNames, own.Spec.Usages}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.why, diff)
		}
		if own.Spec.RenewBefore.Duration >= own.Spec.Duration.Duration || ca.Spec.Duration.Duration < 10*own.Spec.Duration.Duration {
			t.Errorf("%s: valid for %s, renewed %s before the end, by a CA of %s", c.why, own.Spec.Duration, own.Spec.RenewBefore, ca.Spec.Duration)
		}
	}
	if got := InjectedFrom("vms") + " " + APIServerInjectedFrom("vms"); got != "vms/kiln-webhook vms/kiln-apiserver" {
		t.Errorf("the CA is injected from %s", got)
	}
}
