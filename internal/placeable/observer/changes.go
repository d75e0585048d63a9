package observer

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changes are what has changed since the verdicts were compared. They have a bound: a node or a namespace that changes often is in them once.
type changes struct {
	// nodes means that a node has changed in a way that may change a verdict.
	nodes bool
	// namespaces are those whose quotas, LimitRanges or labels have changed.
	namespaces map[string]bool
	// guests are VMs whose needs are to be read again.
	guests map[types.NamespacedName]bool
}

// noteNode notes a change of a node; before is nil for a new node, and after is nil for a deleted one. Nodes report each 10 seconds that they live: what the
// cache keeps of them does not change by that.
func (o *Observer) noteNode(before, after *corev1.Node) {
	if before != nil && after != nil && equality.Semantic.DeepEqual(before.Labels, after.Labels) &&
		before.Annotations[v1alpha1.AnnotationMachineTypes] == after.Annotations[v1alpha1.AnnotationMachineTypes] &&
		equality.Semantic.DeepEqual(before.Spec, after.Spec) && equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable) &&
		isReady(before) == isReady(after) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.nodes = true
}

// isReady reports whether condition Ready of a node is True.
func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// noteNamespace notes that a quota, a LimitRange or the labels of a namespace have changed. reread means that the pods of the namespace may change, too: a
// quota may demand limits of them, and the configuration selects namespaces for limits by labels.
func (o *Observer) noteNamespace(name string, reread bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed.namespaces == nil {
		o.changed.namespaces = map[string]bool{}
	}
	o.changed.namespaces[name] = true
	for key := range o.guests {
		if reread && key.Namespace == name {
			o.markStale(key)
		}
	}
}

// noteDependency notes that a claim, a network or a StorageClass was created or deleted, or has changed.
func (o *Observer) noteDependency(kind string, key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for vm, of := range o.guests {
		if of.need != nil && of.need.depends[dependency{kind, key}] {
			o.markStale(vm)
		}
	}
}

// markStale sends a VM, and has its need of a VM read again. The caller holds the lock.
func (o *Observer) markStale(key types.NamespacedName) {
	stale := *o.guests[key]
	stale.stale = true
	o.guests[key] = &stale
	if o.changed.guests == nil {
		o.changed.guests = map[types.NamespacedName]bool{}
	}
	o.changed.guests[key] = true
}

// takeChanged returns the VMs whose verdicts may differ from their last ones. It compares verdicts without reads past the cache. VMs that had no place come
// first.
func (o *Observer) takeChanged(ctx context.Context) []types.NamespacedName {
	o.mu.Lock()
	changed, guests := o.changed, maps.Clone(o.guests)
	o.changed = changes{}
	o.mu.Unlock()
	if !changed.nodes && len(changed.namespaces) == 0 && len(changed.guests) == 0 {
		return nil
	}
	settings := podinput.SettingsOf(o.Reviewer.Configuration(), o.Settings)
	found, now := changed.guests, o.newClusters()
	if found == nil {
		found = map[types.NamespacedName]bool{}
	}
	for key, of := range guests {
		if !changed.nodes && !changed.namespaces[key.Namespace] {
			continue
		}
		if of.stale || of.need == nil || !equality.Semantic.DeepEqual(of.settings, settings) || o.judgeNeed(ctx, now, key.Namespace, of.need) != of.verdict {
			found[key] = true
		}
	}
	placed := func(key types.NamespacedName) int {
		if of := guests[key]; of != nil && of.verdict.Status == corev1.ConditionTrue {
			return 1
		}
		return 0
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(placed(a), placed(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

const (
	// comparisonInterval is the least time between two comparisons. A comparison that takes longer is followed by a pause of so many times its own duration.
	comparisonInterval, pauseFactor = 250 * time.Millisecond, 9
	// wholeInterval is the time after which all verdicts are compared even if nothing was noticed: settings of pods may have changed.
	wholeInterval = 5 * time.Minute
	// changesPerSecond bounds the VMs that are judged again after a change. A node may change the verdicts of thousands.
	changesPerSecond = 50
)

// sendChanged compares the verdicts whenever something has changed, and sends the VMs to judge again, until the context ends.
func (o *Observer) sendChanged(ctx context.Context, send func(client.ObjectKey)) error {
	pace := time.NewTicker(time.Second / changesPerSecond)
	defer pace.Stop()
	whole := time.Now()
	for pause := comparisonInterval; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		begun := time.Now()
		if begun.Sub(whole) > wholeInterval {
			whole = begun
			o.noteNode(nil, nil)
		}
		keys := o.takeChanged(ctx)
		pause = max(comparisonInterval, pauseFactor*time.Since(begun))
		for _, key := range keys {
			select {
			case <-ctx.Done():
				return nil
			case <-pace.C:
				send(key)
			}
		}
	}
}
