package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/hostprofile"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/clientcmd"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// options are the flags.
type options struct {
	kubeconfig, host, certs, rotate, names, config, health, metrics, leader string

	port           int
	drain, collect time.Duration
}

// configure reads the configuration and keeps it current.
func configure(ctx context.Context, mgr ctrl.Manager, file string) (*clusterconfig.Watcher, error) {
	configuration := &clusterconfig.Watcher{File: file, Cache: mgr.GetCache(), Mapper: mgr.GetRESTMapper(), Log: ctrl.Log.WithName("configuration")}
	if err := configuration.Load(ctx); err != nil {
		return nil, err
	}
	return configuration, mgr.Add(configuration)
}

func newManager(o options) (ctrl.Manager, error) {
	// With an empty path this is the service account of the pod.
	access, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, err
	}
	access.QPS, access.Burst = 200, 400 // a boot storm is hundreds of VMs at once; the API server has its own fairness
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{admissionv1.AddToScheme, authorizationv1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme, v1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	holds, err := labels.NewRequirement(revision.Selector, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	return ctrl.NewManager(access, ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			// Most ControllerRevisions of a cluster are those of stateful and daemon sets.
			ByObject: map[client.Object]cache.ByObject{&appsv1.ControllerRevision{}: {Label: labels.NewSelector().Add(*holds)}},
		},
		HealthProbeBindAddress:  o.health,
		Metrics:                 server.Options{BindAddress: o.metrics},
		LeaderElection:          o.leader != "",
		LeaderElectionNamespace: o.leader,
		LeaderElectionID:        "kiln-controllers",
		// The next replica need not wait for the lease to end: nothing runs after the manager has stopped.
		LeaderElectionReleaseOnCancel: true,
	})
}

// serve registers webhooks and controllers, which resolve alike.
func serve(mgr ctrl.Manager, configuration *clusterconfig.Watcher, at endpoint) error {
	// What a cache lags behind on is asked of, and written to, the API server itself.
	live, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return err
	}
	resolver := resolve.Resolver{Cached: mgr.GetCache(), Live: live, Memo: resolve.NewMemo(), Cluster: configuration.Now}
	hooks := &admission.Server{Resolver: resolver, Review: admission.Reviewer(live), Cluster: configuration.Now, Write: func(ctx context.Context, drafts ...revision.Draft) error {
		return revision.Write(ctx, live, drafts...)
	}}
	if err := at.listen(mgr, hooks.Hooks()); err != nil {
		return err
	}
	controller := &lifecycle.Controller{
		Client: mgr.GetClient(), Live: live, Resolver: resolver, Events: mgr.GetEventRecorder("kiln"), Now: time.Now,
	}
	if err := controller.Register(mgr); err != nil {
		return err
	}
	if err := (&hostprofile.Controller{Client: mgr.GetClient()}).Register(mgr); err != nil {
		return err
	}
	// Of several replicas the leader collects.
	return mgr.Add(&revision.Collector{Cached: mgr.GetCache(), Live: live, Grace: at.collect, Now: time.Now})
}

// watch starts the informers that admission reads, so that no request has to wait for one.
func watch(ctx context.Context, mgr ctrl.Manager) error {
	objects := []client.Object{&appsv1.ControllerRevision{}, &v1.VirtualMachineInstancePreset{}}
	for _, kind := range []string{
		"VirtualMachineInstancetype", "VirtualMachineClusterInstancetype", "VirtualMachinePreference", "VirtualMachineClusterPreference",
	} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(kind))
		objects = append(objects, object)
	}
	for _, object := range objects {
		if _, err := mgr.GetCache().GetInformer(ctx, object); err != nil {
			return fmt.Errorf("watching %T %s: %w (are the custom resource definitions of manifests/crds installed?)", object, object.GetObjectKind().GroupVersionKind().Kind, err)
		}
	}
	return nil
}

// probe serves health. Ready means: the server answers TLS, all informers have synced, and nobody asked to stop.
func probe(ctx context.Context, mgr ctrl.Manager, configuration *clusterconfig.Watcher) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("informers", func(r *http.Request) error {
		brief, cancel := context.WithTimeout(r.Context(), 500*time.Millisecond)
		defer cancel()
		if ctx.Err() != nil {
			return errors.New("stopping")
		}
		if !mgr.GetCache().WaitForCacheSync(brief) {
			return errors.New("informers have not synced")
		}
		if !configuration.Synced() {
			return errors.New("the configuration has not been read")
		}
		return nil
	})
}

// drained ends some time after its parent.
func drained(parent context.Context, after time.Duration) context.Context {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	context.AfterFunc(parent, func() { time.AfterFunc(after, cancel) })
	return ctx
}
