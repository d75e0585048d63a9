package clusterconfig

import "context"

// looks is how many periods pass between two looks for KubeVirt.
const looks = 6

// Beside makes the configuration say who runs guests (config.Limits.KubeVirtGuests): it asks at once, and then each minute. Without an answer the last one
// stays, at first that Kiln does: a right that is missing keeps no process from starting. It must be called before Start.
func (w *Watcher) Beside(ctx context.Context, kubevirt func(context.Context) (bool, error)) {
	w.beside = kubevirt
	w.look(ctx)
}

// look asks who runs guests.
func (w *Watcher) look(ctx context.Context) {
	found, err := w.beside(ctx)
	if err != nil {
		Failures.Inc()
		w.Log.Error(err, "cannot find out whether KubeVirt runs guests; the last answer stays in force")
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.kubevirt == found {
		return
	}
	w.kubevirt = found
	w.put()
	w.Log.Info("who runs guests has changed", "kubevirt", found)
}
