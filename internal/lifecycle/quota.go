package lifecycle

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// QuotaFreed selects the events of ResourceQuotas after which the API server may accept what it refused: a limit was changed, less of a resource is used, or
// the quota was deleted.
var QuotaFreed = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, _ := e.ObjectOld.(*corev1.ResourceQuota)
		after, _ := e.ObjectNew.(*corev1.ResourceQuota)
		return before != nil && after != nil && (!equality.Semantic.DeepEqual(before.Spec, after.Spec) || usesLess(before.Status.Used, after.Status.Used))
	},
}

// usesLess reports whether less of any resource is used than before.
func usesLess(was, is corev1.ResourceList) bool {
	for name, before := range was {
		if now := is[name]; now.Cmp(before) < 0 {
			return true
		}
	}
	return false
}

// MaxRetriedVMs is how many VMs or VMIs are retried for one event of a quota. If more wait, the others follow at their intervals or at the next event.
const MaxRetriedVMs = 16

// refusedVMs returns the VMs of a quota's namespace whose VMIs the API server refuses. The VMs that have waited longest come first.
func (c *Controller) refusedVMs(ctx context.Context, quota client.Object) (requests []ctrl.Request) {
	var list v1.VirtualMachineList
	if err := c.Client.List(ctx, &list, client.InNamespace(quota.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list the VMs of a namespace whose quota was freed", "namespace", quota.GetNamespace())
		return nil
	}
	since := map[ctrl.Request]int64{}
	for i := range list.Items {
		for _, condition := range list.Items[i].Status.Conditions {
			if condition.Type == v1.VirtualMachineFailure && condition.Reason == v1alpha1.ReasonFailedCreate {
				since[ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}] = condition.LastTransitionTime.UnixNano()
			}
		}
	}
	requests = slices.SortedFunc(maps.Keys(since), func(a, b ctrl.Request) int { return cmp.Compare(since[a], since[b]) })
	return requests[:min(len(requests), MaxRetriedVMs)]
}
