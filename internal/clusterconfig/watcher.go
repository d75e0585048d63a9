package clusterconfig

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watcher follows the configuration in a file, or in the KubeVirt object if the cluster serves the kind, and the FrontendProfile in force. A change takes
// effect without a restart. It logs a wrong configuration, and the last good one stays in force. It is a manager.Runnable and a prometheus.Collector.
type Watcher struct {
	// File is the file of the configuration. If it is empty, the configuration is in the KubeVirt object.
	File string
	// Installation names the namespaces whose accounts may do what controllers do. Processes that judge no request leave it empty.
	Installation config.Installation

	// KubeVirtVersion is the version whose rules apply if KubeVirt runs the guests. 0 stands for the version in the status of the KubeVirt object.
	KubeVirtVersion config.Version

	// FrontendProfiles makes the FrontendProfile in force a part of the configuration. Launchers set false, and need no right to read the kind: the controller
	// writes the profile that a VMI is pinned to into the GuestHardware.
	FrontendProfiles bool

	Cache  cache.Cache
	Mapper meta.RESTMapper
	// Live finds out whether this process may read StorageClasses; nil if it may.
	Live client.Reader
	Log  logr.Logger

	// Runtime is how guests run if KubeVirt does not run them. It must be set before FollowKubeVirt. It is in force once it is known that KubeVirt does not run
	// them, because a VM that no pod starts is refused then.
	Runtime config.Runtime

	// findKubeVirt is the argument of FollowKubeVirt, nil if Kiln runs the guests. runByKubeVirt is its last answer, and answered that there is one.
	findKubeVirt            func(context.Context) (bool, error)
	runByKubeVirt, answered bool

	now atomic.Pointer[config.Cluster]
	// inForce has the values of metrics about now.
	inForce atomic.Pointer[inForce]
	// data is the content of the file when it was read last.
	data []byte
	// objects, profiles and classes are the watches of KubeVirt objects, FrontendProfiles and StorageClasses. They are nil until the cluster serves the kind,
	// and classes until guests run in pods.
	objects, profiles, classes atomic.Pointer[registration]

	mutex sync.Mutex
	// read is the configuration that was read last, without FrontendProfile; nil before the first. known are the FrontendProfiles that were read last.
	read  *Reading
	known []v1alpha1.FrontendProfile
	// defaultClass is the name of the default StorageClass, empty if the cluster has none.
	defaultClass string
	// noClasses reports that it was logged that this process may not read StorageClasses.
	noClasses bool
	// tlsChanged is closed when TLS of read changes; nil until somebody asks.
	tlsChanged chan struct{}
}

type registration = toolscache.ResourceEventHandlerRegistration

// period is the time between two reads of the file, and between two requests for a kind that the API server does not serve yet. Kubelet takes a minute to write
// a file of a ConfigMap.
const period = 10 * time.Second

// Now returns the configuration in force, without a request. Before the first read it returns KubeVirt's defaults. The caller must not change the result.
func (w *Watcher) Now() config.Cluster {
	if now := w.now.Load(); now != nil {
		return *now
	}
	return config.Default().InstalledIn(w.Installation)
}

// Load reads the file, or starts to watch the KubeVirt object. It returns an error for a wrong file, so that no process starts with another configuration than
// the one in its file.
func (w *Watcher) Load(ctx context.Context) error {
	w.putDefaultsInForce()
	var err error
	if w.FrontendProfiles {
		err = w.watchKind(ctx, watchedKind{&v1alpha1.FrontendProfile{}, v1alpha1.GroupVersion.WithKind(v1alpha1.KindFrontendProfile), &w.profiles, w.readProfiles})
	}
	err = errors.Join(err, w.watchClasses(ctx))
	if w.File != "" {
		return errors.Join(err, w.readFile())
	}
	return errors.Join(err, w.watchKind(ctx, watchedKind{&v1.KubeVirt{}, v1.KubeVirtGroupVersionKind, &w.objects, w.readObjects}))
}

// kubeVirtPeriods is the number of periods between two searches for KubeVirt.
const kubeVirtPeriods = 6

// FollowKubeVirt makes the configuration report whether KubeVirt runs the guests (config.Limits.KubeVirtGuests), as the function finds at once and then each
// minute. After an error the last answer stays, at first that Kiln runs them: a missing right keeps no process from starting. It must be called before Start.
func (w *Watcher) FollowKubeVirt(ctx context.Context, runsGuests func(context.Context) (bool, error)) {
	w.findKubeVirt = runsGuests
	w.checkKubeVirt(ctx)
}

func (w *Watcher) checkKubeVirt(ctx context.Context) {
	found, err := w.findKubeVirt(ctx)
	if err != nil {
		Failures.Inc()
		w.Log.Error(err, "cannot find out whether KubeVirt runs guests; the last answer stays in force")
		return
	}
	if w.putKubeVirt(found) {
		w.Log.Info("who runs guests has changed", "kubevirt", found)
	}
	if err := w.watchClasses(ctx); err != nil { // Load tries again
		Failures.Inc()
		w.Log.Error(err, "cannot watch StorageClasses")
	}
}

// putKubeVirt puts in force whether KubeVirt runs the guests, and reports whether this has changed.
func (w *Watcher) putKubeVirt(runs bool) (changed bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	changed = w.runByKubeVirt != runs
	if changed || !w.answered {
		w.runByKubeVirt, w.answered = runs, true
		w.putInForce()
	}
	return changed
}

// Synced reports whether the configuration that was in the cluster at the start has been read.
func (w *Watcher) Synced() bool {
	for _, begun := range []*registration{w.objects.Load(), w.profiles.Load(), w.classes.Load()} {
		if begun != nil && !(*begun).HasSynced() {
			return false
		}
	}
	return true
}

// Start keeps the configuration current until the context ends.
func (w *Watcher) Start(ctx context.Context) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for tick := 1; ; tick++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := w.Load(ctx); err != nil {
				Failures.Inc()
				w.Log.Error(err, "cannot read the configuration; the previous one stays in force")
			}
			if w.findKubeVirt != nil && tick%kubeVirtPeriods == 0 {
				w.checkKubeVirt(ctx)
			}
		}
	}
}

// NeedLeaderElection returns false, because every replica admits and needs the configuration.
func (w *Watcher) NeedLeaderElection() bool { return false }

func (w *Watcher) readFile() error {
	data, err := os.ReadFile(w.File)
	if err != nil || w.data != nil && bytes.Equal(data, w.data) {
		return err
	}
	w.data = data // a wrong file is reported only once
	read, err := readFile(w.File, data)
	if err != nil {
		return fmt.Errorf("configuration %w", err)
	}
	w.putReading(read)
	return nil
}

// watchedKind is a kind, its watch, and the function that reads its objects after each change.
type watchedKind struct {
	object client.Object
	kind   schema.GroupVersionKind
	begun  *atomic.Pointer[registration]
	read   func(context.Context)
}

// watchKind starts the watch of a kind if the cluster serves the kind: KubeVirt need not be installed, and Kiln's definitions may be older than this process.
func (w *Watcher) watchKind(ctx context.Context, watched watchedKind) error {
	if watched.begun.Load() != nil {
		return nil
	}
	if _, err := w.Mapper.RESTMapping(watched.kind.GroupKind(), watched.kind.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return err
	}
	informer, err := w.Cache.GetInformer(ctx, watched.object)
	if err != nil {
		return fmt.Errorf("watching objects of kind %s: %w", watched.kind.Kind, err)
	}
	changed := func(any) { watched.read(ctx) }
	begun, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed,
	})
	if err != nil {
		return err
	}
	watched.begun.Store(&begun)
	return nil
}

// readObjects reads the KubeVirt object from the cache. An error leaves the last good configuration in force.
func (w *Watcher) readObjects(ctx context.Context) {
	read, err := readObject(ctx, w.Cache)
	if err != nil {
		Failures.Inc()
		w.Log.Error(err, "cannot read the configuration; the previous one stays in force")
		return
	}
	w.putReading(read)
}

// readProfiles reads the FrontendProfiles from the cache. An error leaves the last ones in force.
func (w *Watcher) readProfiles(ctx context.Context) {
	profiles, err := FrontendProfiles(ctx, w.Cache)
	if err != nil {
		Failures.Inc()
		w.Log.Error(err, "cannot read the FrontendProfiles; the previous ones stay in force")
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	was := config.FrontendInForce(w.known)
	w.known = profiles
	w.putInForce()
	if is := config.FrontendInForce(profiles); nameOf(was) != nameOf(is) {
		w.Log.Info("FrontendProfile in force", "version", nameOf(is))
	}
}

// nameOf returns the name of a profile, which may be nil.
func nameOf(profile *v1alpha1.FrontendProfile) string {
	if profile == nil {
		return ""
	}
	return profile.Name
}

// putReading puts a configuration in force and logs its warnings. It does nothing if the configuration has not changed.
func (w *Watcher) putReading(read Reading) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	before := w.withoutProfile()
	wasTLS, _ := w.currentTLS()
	var warned []string
	if w.read != nil {
		warned = w.read.Warnings
	}
	w.read = &read
	isTLS, _ := w.currentTLS()
	if !isTLS.equals(wasTLS) {
		close(w.tlsChanged)
		w.tlsChanged = nil
	} else if equality.Semantic.DeepEqual(before, w.withoutProfile()) && slices.Equal(warned, read.Warnings) {
		return // the object also changes when virt-operator writes its status
	}
	w.putInForce()
	source := cmp.Or(read.Source, "KubeVirt's defaults")
	for _, warning := range read.Warnings {
		w.Log.Info(warning, "source", source)
	}
	w.Log.Info("configuration read", "source", source)
}

// withoutProfile returns the configuration without FrontendProfile. The mutex must be locked.
func (w *Watcher) withoutProfile() config.Cluster {
	read := Reading{Cluster: config.Default()}
	if w.read != nil {
		read = *w.read
	}
	if w.runByKubeVirt {
		return read.BesideKubeVirt(w.KubeVirtVersion).InstalledIn(w.Installation)
	}
	return read.InstalledIn(w.Installation)
}

// putDefaultsInForce puts KubeVirt's defaults in force if nothing has been read yet.
func (w *Watcher) putDefaultsInForce() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.now.Load() == nil {
		w.putInForce()
	}
}

// putInForce puts the configuration with the FrontendProfile in force. The mutex must be locked.
func (w *Watcher) putInForce() {
	cluster := w.withoutProfile().WithFrontendProfiles(w.known)
	cluster.Limits.KubeVirtGuests = w.runByKubeVirt
	if w.answered {
		cluster.Limits.Runtime = w.Runtime
	}
	cluster.Pods.StateClass = cmp.Or(cluster.Pods.StateClass, w.defaultClass)
	w.now.Store(&cluster)
	w.inForce.Store(newInForce(cluster, nameOf(config.FrontendInForce(w.known))))
}
