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

// Options say what the built-in rotation is about. Durations of zero mean cert-controller's: a CA of
// ten years, certificates of one year, renewed 90 days before their end, looked at every 12 hours.
type Options struct {
	// Dir is where the Secret is mounted in this process. The rotation ends with an error when tls.crt does not appear there for a quarter of
	// an hour.
	Dir string
	// Namespace holds the Secret and the Service.
	Namespace string
	// Names are further DNS names of the webhook, such as localhost. They cannot be IP addresses,
	// which cert-controller does not put into a certificate.
	Names []string
	// CALifetime, Lifetime: how long what is signed is valid. Ahead: how long before its end it is
	// replaced. Every: how often that is looked at.
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
		DNSName:                host(o.Namespace),
		ExtraDNSNames:          o.Names,
		IsReady:                make(chan struct{}), // the webhook's readiness check makes a handshake, which tells as much
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

// narrowed is the manager as the rotation may use it.
type narrowed struct {
	manager.Manager
	config *rest.Config
	client client.Client
}

func (n narrowed) GetConfig() *rest.Config  { return n.config }
func (n narrowed) GetClient() client.Client { return n.client }

// narrow makes the rotation watch its own three objects only, where it would watch all Secrets of the
// namespace and all webhook configurations: RBAC can grant a watch of one name, but only to a request
// that selects that name. And it keeps the CA that is replaced, see overlap.
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
