package certs

import (
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

// Rotate adds the rotation to a manager whose scheme knows core/v1. The Secret must exist, if only empty. Of several replicas the leader
// rotates.
func Rotate(mgr manager.Manager, o Options) error {
	return rotator.AddRotator(narrow(mgr), &rotator.CertRotator{
		SecretKey:              types.NamespacedName{Namespace: o.Namespace, Name: Secret},
		CertDir:                o.Dir,
		CAName:                 Service + "-ca",
		CAOrganization:         "kiln",
		DNSName:                Host(o.Namespace),
		ExtraDNSNames:          o.Names,
		IsReady:                make(chan struct{}), // the webhook's readiness check makes a TLS handshake instead
		Webhooks:               []rotator.WebhookInfo{{Name: Mutating, Type: rotator.Mutating}, {Name: Validating, Type: rotator.Validating}},
		FieldOwner:             "kiln-certificates",
		ControllerName:         "certificates-of-" + o.Namespace,
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

// narrow restricts the watches of the rotation to its own three objects. By itself cert-controller watches all Secrets of the namespace and all
// webhook configurations; RBAC grants a watch of one name only to a request that selects that name. It also adds overlap.
func narrow(mgr manager.Manager) manager.Manager {
	config := rest.CopyConfig(mgr.GetConfig())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return selecting{next, map[string]string{
			"secrets":                         Secret,
			"mutatingwebhookconfigurations":   Mutating,
			"validatingwebhookconfigurations": Validating,
		}}
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
