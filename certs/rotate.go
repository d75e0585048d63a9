package certs

import (
	"crypto/x509"
	"net/http"
	"path"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Options configure the built-in rotation. Zero durations mean cert-controller's defaults: a CA of ten years, certificates of one year, renewal 90
// days before their end, a check every 12 hours.
type Options struct {
	// Dir is where the Secret is mounted in this process. The rotation ends with an error when tls.crt does not appear there for a quarter of
	// an hour.
	Dir string
	// Namespace holds the Secret and the Service.
	Namespace string
	// Names are additional DNS names of the webhook, such as localhost. cert-controller puts no IP addresses into certificates.
	Names []string
	// CALifetime and Lifetime are the validity of CA and certificate. Ahead is the time before the end at which each is renewed, and Every the
	// interval of the check.
	CALifetime, Lifetime, Ahead, Every time.Duration
}

// Rotate adds the rotation of the webhook's certificate to a manager whose scheme knows core/v1. The Secret must exist, if only empty. Of several replicas
// the leader rotates.
func Rotate(mgr manager.Manager, o Options) error {
	return o.rotate(mgr, target{
		secret: Secret, service: Service, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		trusting: []rotator.WebhookInfo{{Name: Mutating, Type: rotator.Mutating}, {Name: Validating, Type: rotator.Validating}},
		watched:  map[string]string{"secrets": Secret, "mutatingwebhookconfigurations": Mutating, "validatingwebhookconfigurations": Validating},
	})
}

// RotateAPIServer adds the rotation of the certificate of the API server of subresources, which is its client certificate for launchers, too. Secret and
// APIServices must exist.
func RotateAPIServer(mgr manager.Manager, o Options) error {
	t := target{
		secret: APIServerSecret, service: APIServerService, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		watched: map[string]string{"secrets": APIServerSecret},
	}
	for _, name := range APIServices {
		t.trusting = append(t.trusting, rotator.WebhookInfo{Name: name, Type: rotator.APIService})
	}
	return o.rotate(mgr, t)
}

// target is a certificate that is rotated.
type target struct {
	secret, service string
	usages          []x509.ExtKeyUsage
	// trusting are the objects that get the CA.
	trusting []rotator.WebhookInfo
	// watched is the one object of a resource that is watched, by the resource.
	watched map[string]string
}

func (o Options) rotate(mgr manager.Manager, t target) error {
	return rotator.AddRotator(narrow(mgr, t.watched), &rotator.CertRotator{
		SecretKey:              types.NamespacedName{Namespace: o.Namespace, Name: t.secret},
		CertDir:                o.Dir,
		CAName:                 t.service + "-ca",
		CAOrganization:         "kiln",
		DNSName:                t.service + "." + o.Namespace + ".svc",
		ExtraDNSNames:          o.Names,
		IsReady:                make(chan struct{}), // the readiness check of the process makes a TLS handshake instead
		Webhooks:               t.trusting,
		FieldOwner:             "kiln-certificates",
		ControllerName:         t.service + "-certificates-of-" + o.Namespace,
		ExtKeyUsages:           &t.usages,
		RequireLeaderElection:  true,
		CaCertDuration:         o.CALifetime,
		ServerCertDuration:     o.Lifetime,
		LookaheadInterval:      o.Ahead,
		RotationCheckFrequency: o.Every,
	})
}

// narrowed is a manager with the client configuration and the client of the rotation.
type narrowed struct {
	manager.Manager
	config *rest.Config
	client client.Client
}

func (n narrowed) GetConfig() *rest.Config  { return n.config }
func (n narrowed) GetClient() client.Client { return n.client }

// narrow restricts the watches of a rotation to its own objects. By itself cert-controller watches all Secrets of the namespace and all
// webhook configurations; RBAC grants a watch of one name only to a request that selects that name. It also adds overlap.
func narrow(mgr manager.Manager, watched map[string]string) manager.Manager {
	config := rest.CopyConfig(mgr.GetConfig())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return selecting{next, watched}
	})
	return narrowed{Manager: mgr, config: config, client: overlap{Client: mgr.GetClient(), live: mgr.GetAPIReader()}}
}

// selecting adds a field selector to requests for a whole collection.
type selecting struct {
	next  http.RoundTripper
	names map[string]string // by the resource with which the path of a collection ends
}

func (s selecting) RoundTrip(request *http.Request) (*http.Response, error) {
	name, known := s.names[path.Base(request.URL.Path)]
	if known {
		request = request.Clone(request.Context()) // a RoundTripper may not change what it is given
		query := request.URL.Query()
		query.Set("fieldSelector", "metadata.name="+name)
		request.URL.RawQuery = query.Encode()
	}
	return s.next.RoundTrip(request)
}
