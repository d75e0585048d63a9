package guestprofile

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/commoncpu"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/nodecpu"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// growAfter is how long the nodes of a profile must have more in common before new VMs get more. A node that is replaced, or whose labels are written anew, is
// away for less. New VMs get less at once, because they must start on all nodes.
const growAfter = 5 * time.Minute

// commonCPU is what was found for one profile.
type commonCPU struct {
	generation, nodes int64
	source            nodecpu.Source
	found             commoncpu.Finding
	// growing is the time since which the nodes have had this in common, if it is more than the status says.
	growing time.Time
}

// followNodes watches nodes from the first profile with spec.commonCPU on: without such a profile, a process beside KubeVirt has no cache of nodes.
func (c *Controller) followNodes(ctx context.Context, mgr ctrl.Manager) error {
	ctx, cancel := context.WithTimeout(ctx, syncLimit) // the cache would wait without end for nodes that it may not list
	defer cancel()
	informer, err := mgr.GetCache().GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.noteNodes() },
		DeleteFunc: func(any) { c.noteNodes() },
		UpdateFunc: func(was, is any) {
			before, isNode := was.(*corev1.Node)
			after, areNodes := is.(*corev1.Node)
			if isNode && areNodes && !maps.Equal(before.Labels, after.Labels) {
				c.noteNodes()
			}
		},
	})
	return err
}

// syncLimit is how long the first list of nodes may take.
const syncLimit = 30 * time.Second

// noteNodes notes that nodes or their labels have changed, and queues the ClusterGuestProfiles.
func (c *Controller) noteNodes() {
	c.nodes.Add(1)
	select {
	case c.shared <- event.GenericEvent{}:
	default: // an event is pending already
	}
}

// findCommonCPUs finds the CPUs of the profiles with spec.commonCPU, and returns after how long one of them must be judged again.
func (c *Controller) findCommonCPUs(ctx context.Context, shared []*judged) (again time.Duration, err error) {
	again = refresh
	known := map[types.UID]commonCPU{}
	for _, one := range shared {
		if one.commonCPU == nil {
			continue
		}
		if one.profile == nil { // its status stays until its mistakes are mended
			one.newCPU = one.object.(*v1alpha1.ClusterGuestProfile).Status.CommonCPU
			continue
		}
		if c.follow != nil {
			if err := c.follow(ctx); err != nil {
				return again, err
			}
			c.follow = nil
			c.followed = true
		}
		last := c.common[one.object.GetUID()]
		now := commonCPU{generation: one.object.GetGeneration(), nodes: c.nodes.Load(), found: last.found,
			source: nodecpu.SourceOf(c.Configuration())}
		if !c.followed || last.generation != now.generation || last.nodes != now.nodes || last.source != now.source {
			if now.found, err = c.findCommonCPU(ctx, one, now.source); err != nil {
				return again, err
			}
		}
		if last.generation == now.generation && sameCPU(&last.found.Status, &now.found.Status) {
			now.growing = last.growing
		}
		again = min(again, c.setCommonCPU(one, &now))
		known[one.object.GetUID()] = now
	}
	c.common = known
	return again, nil
}

// findCommonCPU finds the CPU that the nodes of a profile have in common.
func (c *Controller) findCommonCPU(ctx context.Context, one *judged, source nodecpu.Source) (found commoncpu.Finding, err error) {
	selector := labels.Everything()
	if one.commonCPU.NodeSelector != nil {
		if selector, err = metav1.LabelSelectorAsSelector(one.commonCPU.NodeSelector); err != nil {
			return found, err // the profile was checked
		}
	}
	var list corev1.NodeList
	if err := c.Cached.List(ctx, &list, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return found, fmt.Errorf("listing nodes: %w", err)
	}
	nodes := commoncpu.NewNodes(source)
	for i := range list.Items {
		nodes.AddNode(list.Items[i].Name, list.Items[i].Labels)
	}
	return nodes.Find(), nil
}

// setCommonCPU sets the new status of a profile, and returns after how long the profile must be judged again. Without a CPU in common, and while the CPU has
// not grown for long enough, the CPU of the status stays.
func (c *Controller) setCommonCPU(one *judged, now *commonCPU) (again time.Duration) {
	stored := one.object.(*v1alpha1.ClusterGuestProfile).Status.CommonCPU
	if stored == nil {
		stored = &v1alpha1.CommonCPUStatus{}
	}
	next, again := *now.found.Status.DeepCopy(), refresh
	judgement := metav1.Condition{
		Type: v1alpha1.ConditionCommonCPU, Status: metav1.ConditionTrue, Reason: now.found.Reason, ObservedGeneration: one.object.GetGeneration(),
		Message: now.found.Message,
	}
	keep := next.Model == ""
	switch {
	case keep:
		judgement.Status = metav1.ConditionFalse
		if stored.Model != "" {
			judgement.Message += fmt.Sprintf(". New VMs get the last CPU in common, model '%s'", stored.Model)
		}
	case stored.Model == "" || !one.observedCommonCPU() || !hasGrown(stored, &next):
		now.growing = time.Time{}
	default:
		if now.growing.IsZero() {
			now.growing = c.Now()
		}
		if left := growAfter - c.Now().Sub(now.growing); left > 0 {
			keep, again = true, left
			judgement.Reason = v1alpha1.ReasonGrowing
			judgement.Message += fmt.Sprintf(". New VMs get this CPU if it stays so for %d minutes", int(growAfter.Minutes()))
		}
	}
	if keep {
		next.Model, next.Vendor, next.Features = stored.Model, stored.Vendor, stored.Features
	}
	judgement.Message = condition.Message(judgement.Message)
	one.newCPU, one.status.Conditions = &next, append(one.status.Conditions, judgement)
	return again
}

// observedCommonCPU reports whether the stored status is about the stored spec. If an administrator has changed the selector, new VMs get the new CPU at once.
func (j *judged) observedCommonCPU() bool {
	conditions := statusOf(j.object).Conditions
	at := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionCommonCPU })
	return at >= 0 && conditions[at].ObservedGeneration == j.object.GetGeneration()
}

// hasGrown reports whether a CPU has all that another one has, and more.
func hasGrown(before, after *v1alpha1.CommonCPUStatus) bool {
	if before.Vendor != after.Vendor || sameCPU(before, after) || commoncpu.IsOlder(before.Vendor, after.Model, before.Model) {
		return false
	}
	return !slices.ContainsFunc(before.Features, func(name string) bool {
		_, kept := slices.BinarySearch(after.Features, name)
		return !kept
	})
}

// sameCPU reports whether two CPUs are equal.
func sameCPU(a, b *v1alpha1.CommonCPUStatus) bool {
	return a.Model == b.Model && a.Vendor == b.Vendor && reflect.DeepEqual(a.Features, b.Features)
}

// hasNewCPU reports whether the judgement has changed the CPU that new VMs get.
func (j *judged) hasNewCPU() bool {
	if j.newCPU == nil {
		return false
	}
	stored := j.object.(*v1alpha1.ClusterGuestProfile).Status.CommonCPU
	return stored == nil || !sameCPU(stored, j.newCPU)
}
