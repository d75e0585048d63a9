package placeable

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	quotas "k8s.io/apiserver/pkg/quota/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// The API server's evaluator of pods is in no library. Its arithmetic on lists of resources is (k8s.io/apiserver/pkg/quota/v1).

// mustBeSet are the resources that a pod must set if a quota bounds them.
var mustBeSet = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory}

// judgeQuotas returns why a quota of the namespace refuses a pod with its defaults. The message does not say how much is used: it would change with each pod of
// the namespace.
func judgeQuotas(of *corev1.Pod, cluster Cluster) *condition.Cause {
	uses := usageOf(of)
	for i := range cluster.Quotas {
		quota := &cluster.Quotas[i]
		if !inScope(of, quota) {
			continue
		}
		bounded := quotas.ResourceNames(quota.Spec.Hard)
		unset := quotas.Difference(quotas.Intersection(bounded, mustBeSet), quotas.ResourceNames(uses))
		if len(unset) > 0 {
			return quotaCause(quota, "it bounds "+joinNames(unset)+", which the pod does not set. Set these in domain.resources of the VM, or add a LimitRange "+
				"with defaults to the namespace")
		}
		wanted := quotas.RemoveZeros(quotas.Mask(uses, bounded))
		if fit, over := quotas.LessThanOrEqual(wanted, quota.Spec.Hard); !fit {
			return quotaCause(quota, "the pod needs "+listQuantities(wanted, over)+" and the quota has "+listQuantities(quota.Spec.Hard, over)+
				" altogether. Use a smaller instancetype, or raise the quota")
		}
		// The controller of quotas fills the status. Without it the API server cannot tell either, and retries.
		left := quotas.Mask(quota.Status.Hard, bounded)
		wanted = quotas.Mask(wanted, quotas.ResourceNames(left))
		if fit, over := quotas.LessThanOrEqual(quotas.Add(wanted, quotas.Mask(quota.Status.Used, quotas.ResourceNames(wanted))), left); !fit {
			return quotaCause(quota, "other pods use so much of it that less is left than the pod needs: "+listQuantities(wanted, over)+
				". Stop other VMs of the namespace, use a smaller instancetype, or raise the quota")
		}
	}
	return nil
}

func quotaCause(quota *corev1.ResourceQuota, text string) *condition.Cause {
	return &condition.Cause{Reason: v1alpha1.ReasonQuotaExceeded, Message: "ResourceQuota " + quote(quota.Name) + " of the namespace refuses the pod: " + text}
}

// usageOf returns what quotas count for a pod.
func usageOf(of *corev1.Pod) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	options := resourcehelper.PodResourcesOptions{}
	uses := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	for name, quantity := range resourcehelper.PodRequests(of, options) {
		switch {
		case name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage,
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			uses[name] = quantity
		}
		uses[corev1.DefaultResourceRequestsPrefix+name] = quantity
	}
	for name, quantity := range resourcehelper.PodLimits(of, options) {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			uses["limits."+name] = quantity
		}
	}
	return uses
}

// inScope reports whether a quota counts a pod.
func inScope(of *corev1.Pod, quota *corev1.ResourceQuota) bool {
	scopes := make([]corev1.ScopedResourceSelectorRequirement, 0, len(quota.Spec.Scopes))
	for _, name := range quota.Spec.Scopes {
		scopes = append(scopes, corev1.ScopedResourceSelectorRequirement{ScopeName: name, Operator: corev1.ScopeSelectorOpExists})
	}
	if quota.Spec.ScopeSelector != nil {
		scopes = append(scopes, quota.Spec.ScopeSelector.MatchExpressions...)
	}
	return !slices.ContainsFunc(scopes, func(s corev1.ScopedResourceSelectorRequirement) bool { return !matchesScope(of, s) })
}

// matchesScope reports whether a pod of a guest has a scope: it never has activeDeadlineSeconds, and always requests memory.
func matchesScope(of *corev1.Pod, scope corev1.ScopedResourceSelectorRequirement) bool {
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort:
		return true
	case corev1.ResourceQuotaScopePriorityClass:
		class := of.Spec.PriorityClassName
		switch scope.Operator {
		case corev1.ScopeSelectorOpIn:
			return class != "" && slices.Contains(scope.Values, class)
		case corev1.ScopeSelectorOpNotIn:
			return !slices.Contains(scope.Values, class)
		case corev1.ScopeSelectorOpDoesNotExist:
			return class == ""
		}
		return class != ""
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(of.Spec.Affinity)
	}
	return false
}

// crossesNamespaces reports whether an affinity names pods of other namespaces.
func crossesNamespaces(affinity *corev1.Affinity) bool {
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for i := range preferred {
			terms = append(terms, preferred[i].PodAffinityTerm)
		}
	}
	if affinity != nil && affinity.PodAffinity != nil {
		add(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if affinity != nil && affinity.PodAntiAffinity != nil {
		add(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

// joinNames joins the names of resources.
func joinNames(names []corev1.ResourceName) string {
	slices.Sort(names)
	var texts []string
	for _, name := range names {
		texts = append(texts, fmt.Sprintf("%.253s", name))
	}
	return listNames(texts)
}
