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

// Options configure the built-in rotation. Zero durations mean cert-controller's defaults: a CA is valid for ten years and a certificate for one year, both
// are renewed 90 days before their end, and a check runs every 12 hours.
type Options struct {
	// Dir is the folder at which the Secret is mounted in this process. The rotation fails if tls.crt does not appear there within a quarter of an hour.
	Dir string
	// Namespace is the namespace of the Secret and the Service.
	Namespace string
	// Names are additional DNS names of the webhook, such as localhost. cert-controller does not support IP addresses in certificates.
	Names []string
	// CALifetime and Lifetime are the validity of the CA and of the certificate. Ahead is the time before the end at which both are renewed, and Every the
	// interval of checks.
	CALifetime, Lifetime, Ahead, Every time.Duration
}

// Rotate adds the rotation of the webhook's certificate to a manager whose scheme has core/v1. The Secret must exist, and may be empty. Only the leader
// rotates.
func Rotate(mgr manager.Manager, o Options) error {
	return o.addRotation(mgr, target{
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
	return o.addRotation(mgr, t)
}

// target is a certificate to rotate.
type target struct {
	secret, service string
	usages          []x509.ExtKeyUsage
	// trusting are the objects into which the CA is written.
	trusting []rotator.WebhookInfo
	// watched is the name of the only object that is watched, by its resource.
	watched map[string]string
}

func (o Options) addRotation(mgr manager.Manager, t target) error {
	return rotator.AddRotator(narrowWatches(mgr, t.watched), &rotator.CertRotator{
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

// narrowWatches returns a manager that restricts the watches of a rotation to its own objects, and that adds overlap. cert-controller itself watches all
// Secrets of the namespace and all webhook configurations, but RBAC allows a watch of one object only if the request selects its name.
func narrowWatches(mgr manager.Manager, watched map[string]string) manager.Manager {
	config := rest.CopyConfig(mgr.GetConfig())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return selecting{next, watched}
	})
	return narrowed{Manager: mgr, config: config, client: overlap{Client: mgr.GetClient(), live: mgr.GetAPIReader()}}
}

// selecting adds a field selector to requests for a whole collection.
type selecting struct {
	next  http.RoundTripper
	names map[string]string // by resource, which is the end of a collection's path
}

func (s selecting) RoundTrip(request *http.Request) (*http.Response, error) {
	name, known := s.names[path.Base(request.URL.Path)]
	if known {
		request = request.Clone(request.Context()) // a RoundTripper may not change its argument
		query := request.URL.Query()
		query.Set("fieldSelector", "metadata.name="+name)
		request.URL.RawQuery = query.Encode()
	}
	return s.next.RoundTrip(request)
}
