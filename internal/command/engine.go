package command

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Engine is the manager of the webhook or the controller, with what both need to resolve the references of VMs in the same way.
type Engine struct {
	ctrl.Manager
	// Live reads and writes without the cache.
	Live          client.Client
	Configuration *clusterconfig.Watcher
	Resolver      resolve.Resolver
}

// NewEngine reads the configuration from a file, or from the cluster if file is empty, and keeps it current. It sets Scheme and Cache of the options.
func (p *Process) NewEngine(ctx context.Context, file string, o ctrl.Options) (*Engine, error) {
	if p.Namespace == "" {
		return nil, errors.New("--namespace must name the namespace that Kiln is installed in; in a pod, POD_NAMESPACE does")
	}
	var err error
	if o.Scheme, err = newScheme(); err != nil {
		return nil, err
	}
	if o.Cache, err = cacheOptions(); err != nil {
		return nil, err
	}
	e := &Engine{}
	mgr, err := p.Manager(o, func(metrics *tls.Config) { e.Configuration.FollowTLS(metrics) })
	if err != nil {
		return nil, err
	}
	e.Manager = mgr
	e.Live, err = client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, err
	}
	e.Configuration = &clusterconfig.Watcher{
		File: file, FrontendProfiles: true, Installation: config.Installation{Kiln: p.Namespace, KubeVirt: p.KubeVirtNamespace},
		Cache: mgr.GetCache(), Mapper: mgr.GetRESTMapper(), Live: e.Live, Log: ctrl.Log.WithName("configuration"),
	}
	e.Resolver = resolve.Resolver{Cached: mgr.GetCache(), Live: e.Live, Memo: resolve.NewMemo()}
	if err := e.Configuration.Load(ctx); err != nil {
		return nil, err
	}
	return e, errors.Join(mgr.Add(e.Configuration), Probe(ctx, e), e.AddReadyzCheck("configuration", e.checkConfiguration), Publish(Metrics(e.Configuration)))
}

func (e *Engine) checkConfiguration(*http.Request) error {
	if !e.Configuration.Synced() {
		return errors.New("the configuration has not been read yet")
	}
	return nil
}

func newScheme() (*runtime.Scheme, error) {
	all := runtime.NewScheme()
	return all, errors.Join(admissionv1.AddToScheme(all), authenticationv1.AddToScheme(all), authorizationv1.AddToScheme(all), appsv1.AddToScheme(all),
		rbacv1.AddToScheme(all),
		corev1.AddToScheme(all), storagev1.AddToScheme(all), v1.AddToScheme(all), snapshot.AddToScheme(all), clone.AddToScheme(all), v1alpha1.AddToScheme(all),
		openreports.Install(all), cdi.AddToScheme(all))
}

// guestPods are the labels of the pods of guests, as in KubeVirt. The cache leaves out all other pods.
var guestPods = labels.Set{v1.AppLabel: "virt-launcher"}

// cacheOptions returns the options of the cache. A selector leaves out the ControllerRevisions of StatefulSets and DaemonSets, which are the most of a
// cluster.
func cacheOptions() (cache.Options, error) {
	named, err := labels.NewRequirement(revision.Selector, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	return cache.Options{
		DefaultTransform: Slim,
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.ControllerRevision{}: {Label: labels.NewSelector().Add(*named)},
			&corev1.Namespace{}:          {Transform: slimNamespace},
			&corev1.Pod{}:                {Label: labels.SelectorFromSet(guestPods)},
		},
	}, nil
}
