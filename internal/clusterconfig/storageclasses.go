package clusterconfig

import (
	"cmp"
	"context"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defaultClassAnnotation marks a default StorageClass. Source: storage.k8s.io, IsDefaultStorageClassAnnotation of Kubernetes.
const defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"

// watchClasses makes the default StorageClass of the cluster the class of guest states (config.Pods.StateClass) if vmStateStorageClass is empty, as in
// KubeVirt. It does nothing unless guests run in pods: beside KubeVirt the process lacks the right to watch StorageClasses. Trap: without the right, a watch
// never syncs, and the manager waits for it for ever before it starts anything. Kiln's manifests for KubeVirt's clusters may be applied before KubeVirt.
func (w *Watcher) watchClasses(ctx context.Context) error {
	if w.classes.Load() != nil || !w.Now().Limits.RunsInPods() {
		return nil
	}
	if w.Live != nil {
		err := w.Live.List(ctx, &storagev1.StorageClassList{}, client.Limit(1))
		if apierrors.IsForbidden(err) {
			if !w.noClasses {
				w.Log.Info("the default StorageClass is not known, because this process may not read StorageClasses", "reason", err.Error())
			}
			w.noClasses = true
			return nil
		}
		if err != nil {
			return err
		}
	}
	kind := storagev1.SchemeGroupVersion.WithKind("StorageClass")
	return w.watchKind(ctx, watchedKind{&storagev1.StorageClass{}, kind, &w.classes, w.readClasses})
}

// readClasses reads the StorageClasses from the cache. An error leaves the last default in force.
func (w *Watcher) readClasses(ctx context.Context) {
	var classes storagev1.StorageClassList
	if err := w.Cache.List(ctx, &classes); err != nil {
		Failures.Inc()
		w.Log.Error(err, "cannot read the StorageClasses; the previous default stays in force")
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if is := defaultClass(classes.Items); is != w.defaultClass {
		w.defaultClass = is
		w.putInForce()
		w.Log.Info("the default StorageClass has changed", "name", is)
	}
}

// defaultClass returns the name of the default StorageClass: the newest one, then the first by name, as Kubernetes' admission of claims. It is empty without a
// default class.
func defaultClass(classes []storagev1.StorageClass) string {
	classes = slices.DeleteFunc(slices.Clone(classes), func(class storagev1.StorageClass) bool { return class.Annotations[defaultClassAnnotation] != "true" })
	if len(classes) == 0 {
		return ""
	}
	return slices.MinFunc(classes, func(a, b storagev1.StorageClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	}).Name
}
