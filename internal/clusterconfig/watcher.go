package clusterconfig

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Watcher keeps the configuration of a file, or of the KubeVirt object where that kind is served. A change takes effect without a
// restart. A wrong configuration is logged, and the last good one stays.
type Watcher struct {
	// File is read if it is named; else the KubeVirt object is.
	File string
	// Installation names the namespaces whose accounts may do what controllers do. Its zero value is for processes that judge no request.
	Installation config.Installation

	Cache  cache.Cache
	Mapper meta.RESTMapper
	Log    logr.Logger

	now atomic.Pointer[config.Cluster]
	// data is what the file held when it was read last.
	data []byte
	// objects is the watch of KubeVirt objects; nil as long as the cluster does not serve them.
	objects atomic.Pointer[toolscache.ResourceEventHandlerRegistration]
}

// period is how often a file is read again, and the API server asked for a kind that it did not serve. A file of a mounted
// ConfigMap lags a minute behind by itself.
const period = 10 * time.Second

// Now returns the configuration in force, without a call. Before the first read it is that of a cluster that configures nothing. The caller must
// not change it.
func (w *Watcher) Now() config.Cluster {
	if now := w.now.Load(); now != nil {
		return *now
	}
	return config.Default().InstalledIn(w.Installation)
}

// Load reads the file, or starts to watch the object. A wrong file is an error, so that nothing starts with another
// configuration than the one that was asked for.
func (w *Watcher) Load(ctx context.Context) error {
	if w.File != "" {
		return w.readFile()
	}
	return w.watchObjects(ctx)
}

// Synced reports whether the configuration that stood in the cluster at the start has been read.
func (w *Watcher) Synced() bool {
	objects := w.objects.Load()
	return objects == nil || (*objects).HasSynced()
}

// Start keeps the configuration current until the context ends.
func (w *Watcher) Start(ctx context.Context) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := w.Load(ctx); err != nil {
				w.Log.Error(err, "cannot read the configuration; the previous one stays in force")
			}
		}
	}
}

// NeedLeaderElection is false: every replica admits, so every replica needs the configuration.
func (w *Watcher) NeedLeaderElection() bool { return false }

func (w *Watcher) readFile() error {
	data, err := os.ReadFile(w.File)
	if err != nil || w.data != nil && bytes.Equal(data, w.data) {
		return err
	}
	w.data = data // a wrong file is reported once, not each period
	cluster, warnings, err := Parse(data)
	if err != nil {
		return fmt.Errorf("configuration '%s': %w", w.File, err)
	}
	w.set(Reading{cluster, warnings, w.File})
	return nil
}

// watchObjects has the cache watch KubeVirt objects once the cluster serves them: KubeVirt need not be installed.
func (w *Watcher) watchObjects(ctx context.Context) error {
	if w.objects.Load() != nil {
		return nil
	}
	kind := v1.KubeVirtGroupVersionKind
	if _, err := w.Mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return err
	}
	informer, err := w.Cache.GetInformer(ctx, &v1.KubeVirt{})
	if err != nil {
		return fmt.Errorf("watching KubeVirt objects: %w", err)
	}
	changed := func(any) { w.readObjects(ctx) }
	objects, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed,
	})
	if err != nil {
		return err
	}
	w.objects.Store(&objects)
	return nil
}

// readObjects reads the KubeVirt object from the cache. An error leaves the last good configuration in force.
func (w *Watcher) readObjects(ctx context.Context) {
	read, err := ofObject(ctx, w.Cache)
	if err != nil {
		w.Log.Error(err, "cannot read the configuration; the previous one stays in force")
		return
	}
	w.set(read)
}

// set puts a configuration in force and logs its warnings, once for each change and not for each write of the object.
func (w *Watcher) set(read Reading) {
	cluster := read.InstalledIn(w.Installation)
	if equality.Semantic.DeepEqual(cluster, w.Now()) {
		return // the object also changes when virt-operator writes its status
	}
	w.now.Store(&cluster)
	source := cmp.Or(read.Source, "KubeVirt's defaults")
	for _, warning := range read.Warnings {
		w.Log.Info(warning, "source", source)
	}
	w.Log.Info("configuration read", "source", source)
}
