package subresource

import (
	"context"
	"net/http"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Serving configures where the API is served, and how it authenticates and authorizes callers.
type Serving struct {
	// Address and Port are where the server listens. Certificate and Key are files that must exist; the server reads them again when they change.
	Address          string
	Port             int
	Certificate, Key string
	// Access connects this process with Kubernetes' API server, which authenticates callers and authorizes their requests. Kubeconfig is its file; empty for the
	// service account of the pod.
	Access     *rest.Config
	Kubeconfig string
	// MinTLSVersion and CipherSuites are as in tls.Config. HTTP2 allows clients to speak HTTP/2.
	MinTLSVersion uint16
	CipherSuites  []uint16
	HTTP2         bool
}

const (
	// mostRequests is the number of requests, except streams, that are answered at once. The server answers further ones with 429, and their clients try again.
	mostRequests = 200
)

// Server returns a server that authenticates and authorizes requests, and answers them. It sets the Authorizer of an API that has none, so that streams of a
// server that has stopped keep theirs.
func (a *API) Server(s Serving) (*server.GenericAPIServer, error) {
	scheme := statusScheme()
	codecs := serializer.NewCodecFactory(scheme)
	config := server.NewRecommendedConfig(codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.EnableProfiling, config.EnableIndex, config.EnableMetrics = false, false, false
	config.MaxRequestsInFlight, config.MaxMutatingRequestsInFlight = mostRequests, mostRequests
	config.LongRunningFunc = func(_ *http.Request, info *request.RequestInfo) bool {
		return isStream(info.Resource, info.Subresource)
	}
	config.OpenAPIConfig = server.DefaultOpenAPIConfig(openAPIDefinitions, openapi.NewDefinitionNamer(scheme))
	config.OpenAPIV3Config = server.DefaultOpenAPIV3Config(openAPIDefinitions, openapi.NewDefinitionNamer(scheme))
	config.OpenAPIConfig.Info.Title, config.OpenAPIV3Config.Info.Title = "Kiln", "Kiln"
	if err := a.configureSecurity(config, s); err != nil {
		return nil, err
	}
	if a.Authorizer == nil {
		a.Authorizer = config.Authorization.Authorizer
	}
	generic, err := config.Complete().New("kiln-apiserver", server.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	a.installRoutes(generic, codecs)
	return generic, nil
}

// statusScheme returns a scheme with the only type that the library itself answers with: Status, for a path or verb without a route.
func statusScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, version := range Versions {
		metav1.AddToGroupVersion(scheme, version)
	}
	return scheme
}

// configureSecurity makes the server listen with its certificate, and authenticate and authorize callers by Kubernetes' API server.
func (a *API) configureSecurity(config *server.RecommendedConfig, s Serving) error {
	serving := options.NewSecureServingOptions().WithLoopback()
	serving.BindPort, serving.HTTP2MaxStreamsPerConnection = s.Port, mostRequests
	if err := serving.BindAddress.UnmarshalText([]byte(s.Address)); err != nil {
		return err
	}
	serving.ServerCert.CertKey = options.CertKey{CertFile: s.Certificate, KeyFile: s.Key}
	authentication, authorization := options.NewDelegatingAuthenticationOptions(), options.NewDelegatingAuthorizationOptions()
	authentication.RemoteKubeConfigFile, authorization.RemoteKubeConfigFile = s.Kubeconfig, s.Kubeconfig
	// kube-apiserver reads discovery and OpenAPI with its own account, and shows them to all users who may read its own discovery.
	authorization.AlwaysAllowPaths = append(authorization.AlwaysAllowPaths, "/apis", "/apis/"+Group, "/openapi/*", "/version")
	for _, version := range Versions {
		authorization.AlwaysAllowPaths = append(authorization.AlwaysAllowPaths, "/apis/"+version.String())
	}
	if err := serving.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return err
	}
	if err := authentication.ApplyTo(&config.Authentication, config.SecureServing, config.OpenAPIConfig); err != nil {
		return err
	}
	config.SecureServing.MinTLSVersion, config.SecureServing.CipherSuites, config.SecureServing.DisableHTTP2 = s.MinTLSVersion, s.CipherSuites, !s.HTTP2
	config.ClientConfig = s.Access
	client, err := kubernetes.NewForConfig(s.Access)
	if err != nil {
		return err
	}
	config.SharedInformerFactory = informers.NewSharedInformerFactory(client, 0)
	return authorization.ApplyTo(&config.Authorization)
}

// installRoutes adds the routes and their discovery. It does not install them by the library's storage API, because that needs a parent resource with objects,
// and kubectl would find 'virtualmachines' twice.
func (a *API) installRoutes(generic *server.GenericAPIServer, codecs serializer.CodecFactory) {
	group := metav1.APIGroup{Name: Group}
	for i, service := range a.webServices() {
		version := Versions[i]
		discovery.NewAPIVersionHandler(codecs, version, discovery.APIResourceListerFunc(discoveryResources)).AddToWebService(service)
		generic.Handler.GoRestfulContainer.Add(service)
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version})
		generic.AggregatedDiscoveryGroupManager.AddGroupVersion(Group, apidiscovery.APIVersionDiscovery{Version: version.Version})
	}
	group.PreferredVersion = group.Versions[0]
	generic.DiscoveryGroupManager.AddGroup(group)
	generic.Handler.GoRestfulContainer.Add(discovery.NewAPIGroupHandler(codecs, group).WebService())
}

// openAPIDefinitions returns the schemas of bodies and answers. Each is an object without fields: the CRDs have the fields of VMs and VMIs, and a second copy
// of a VM's schema would cost every API server some MB.
func openAPIDefinitions(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	object := common.OpenAPIDefinition{Schema: spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}}
	all := map[string]common.OpenAPIDefinition{}
	for _, sample := range sampleTypes() {
		all[util.GetCanonicalTypeName(sample)] = object
	}
	return all
}

// sampleTypes returns a value of each type that a web service of this process reads or writes.
func sampleTypes() []any {
	list := []any{metav1.APIGroup{}, metav1.APIGroupList{}, metav1.APIResourceList{}, apiversion.Info{}}
	for _, r := range allRoutes() {
		for _, sample := range []any{r.options, r.answer} {
			if sample != nil {
				list = append(list, sample)
			}
		}
	}
	return list
}

// Run serves until the context ends.
func Run(ctx context.Context, generic *server.GenericAPIServer) error {
	return generic.PrepareRun().RunWithContext(ctx)
}
