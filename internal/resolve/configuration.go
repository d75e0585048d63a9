package resolve

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Configuration is the configuration of the cluster as it is now: of a file, or of the KubeVirt object where that kind is
// served, else KubeVirt's defaults. A change takes effect without a restart; a wrong one is logged, and the last good
// one stays.
type Configuration struct {
	// File holds what Config reads; empty means the KubeVirt object.
	File   string
	Cache  cache.Cache
	Mapper meta.RESTMapper
	Log    logr.Logger

	now  atomic.Pointer[config.Cluster]
	read []byte
	// objects is the watch of KubeVirt objects; nil as long as the cluster does not serve them.
	objects atomic.Pointer[toolscache.ResourceEventHandlerRegistration]
}

// period is how often a file is read again, and the API server asked for a kind that it did not serve. A file of a mounted
// ConfigMap lags a minute behind by itself.
const period = 10 * time.Second

// Now is the configuration in force. It costs no call; the caller must not change it.
func (c *Configuration) Now() config.Cluster {
	if now := c.now.Load(); now != nil {
		return *now
	}
	return config.Default()
}

// Load reads the file, or starts to watch the object. A wrong file is an error, so that nothing starts with another
// configuration than the one that was asked for.
func (c *Configuration) Load(ctx context.Context) error {
	if c.File != "" {
		return c.readFile()
	}
	return c.follow(ctx)
}

// Synced tells whether the configuration that stood in the cluster at the start has been read.
func (c *Configuration) Synced() bool {
	objects := c.objects.Load()
	return objects == nil || (*objects).HasSynced()
}

// Start keeps the configuration current until the context ends.
func (c *Configuration) Start(ctx context.Context) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := c.Load(ctx); err != nil {
				c.Log.Error(err, "the configuration stays as it was")
			}
		}
	}
}

// NeedLeaderElection is false: every replica admits, so every replica needs the configuration.
func (c *Configuration) NeedLeaderElection() bool { return false }

func (c *Configuration) readFile() error {
	data, err := os.ReadFile(c.File)
	if err != nil || c.read != nil && bytes.Equal(data, c.read) {
		return err
	}
	c.read = data // a wrong file is told once, not each period
	cluster, warnings, err := Config(data)
	if err != nil {
		return fmt.Errorf("configuration '%s': %w", c.File, err)
	}
	c.set(cluster, warnings, c.File)
	return nil
}

// follow has the cache watch KubeVirt objects once the cluster serves them: KubeVirt need not be installed.
func (c *Configuration) follow(ctx context.Context) error {
	if c.objects.Load() != nil {
		return nil
	}
	kind := v1.KubeVirtGroupVersionKind
	if _, err := c.Mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return err
	}
	informer, err := c.Cache.GetInformer(ctx, &v1.KubeVirt{})
	if err != nil {
		return fmt.Errorf("watching KubeVirt objects: %w", err)
	}
	changed := func(any) { c.readObjects(ctx) }
	objects, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed,
	})
	if err != nil {
		return err
	}
	c.objects.Store(&objects)
	return nil
}

// readObjects takes the KubeVirt object of the cache.
func (c *Configuration) readObjects(ctx context.Context) {
	first, err := object(ctx, c.Cache)
	if err != nil {
		c.Log.Error(err, "the configuration stays as it was")
		return
	}
	if first == nil {
		c.set(config.Default(), nil, "KubeVirt's defaults")
		return
	}
	source := fmt.Sprintf("KubeVirt %s/%s", first.Namespace, first.Name)
	cluster, warnings, err := configured(first)
	if err != nil {
		c.Log.Error(err, "the configuration stays as it was", "source", source)
		return
	}
	c.set(cluster, warnings, source)
}

// object is the KubeVirt object, nil if there is none. A cluster has one; of several the first by namespace and name counts.
func object(ctx context.Context, reader client.Reader) (*v1.KubeVirt, error) {
	var list v1.KubeVirtList
	if err := reader.List(ctx, &list); err != nil || len(list.Items) == 0 {
		return nil, err
	}
	first := slices.MinFunc(list.Items, func(a, b v1.KubeVirt) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return &first, nil
}

// OfCluster is the configuration of the KubeVirt object that a reader finds; false, with KubeVirt's defaults, where there is none:
// KubeVirt need not be installed.
func OfCluster(ctx context.Context, reader client.Reader) (config.Cluster, bool, error) {
	first, err := object(ctx, reader)
	if first == nil && (err == nil || meta.IsNoMatchError(err)) {
		return config.Default(), false, nil
	}
	if err != nil {
		return config.Cluster{}, false, err
	}
	cluster, _, err := configured(first)
	if err != nil {
		err = fmt.Errorf("KubeVirt %s/%s: %w", first.Namespace, first.Name, err)
	}
	return cluster, true, err
}

// Current is the configuration of a file, else that of a cluster, else KubeVirt's defaults: for programs that read it once.
// reader may be nil.
func Current(ctx context.Context, file string, reader client.Reader) (config.Cluster, error) {
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return config.Cluster{}, err
		}
		cluster, _, err := Config(data)
		return cluster, err
	}
	if reader == nil {
		return config.Default(), nil
	}
	cluster, _, err := OfCluster(ctx, reader)
	return cluster, err
}

func (c *Configuration) set(cluster config.Cluster, warnings []string, source string) {
	if equality.Semantic.DeepEqual(cluster, c.Now()) {
		return // the object is written for other reasons too
	}
	c.now.Store(&cluster)
	for _, warning := range warnings {
		c.Log.Info(warning, "source", source)
	}
	c.Log.Info("configuration read", "source", source)
}
