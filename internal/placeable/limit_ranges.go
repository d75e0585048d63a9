package placeable

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// The API server does not publish the code of its admission plugin LimitRanger as a library. Its rules are here for pods of one container.

// withDefaults returns the pod as the API server would store it: with requests for its limits, and with the defaults of LimitRanges.
func withDefaults(of *corev1.Pod, ranges []corev1.LimitRange) *corev1.Pod {
	of = of.DeepCopy()
	for i := range of.Spec.Containers {
		r := &of.Spec.Containers[i].Resources
		r.Requests, r.Limits = withMissing(r.Requests, r.Limits), withMissing(r.Limits, nil)
		for j := range ranges {
			for k := range ranges[j].Spec.Limits {
				if item := &ranges[j].Spec.Limits[k]; item.Type == corev1.LimitTypeContainer {
					r.Limits, r.Requests = withMissing(r.Limits, item.Default), withMissing(r.Requests, item.DefaultRequest)
				}
			}
		}
	}
	return of
}

// withMissing returns a list with the resources of another one that it lacks.
func withMissing(list, from corev1.ResourceList) corev1.ResourceList {
	all := maps.Clone(from)
	if all == nil {
		all = corev1.ResourceList{}
	}
	maps.Copy(all, list)
	return all
}

// judgeLimitRanges returns the first rule of a LimitRange that a pod with its defaults breaks.
func judgeLimitRanges(of *corev1.Pod, cluster Cluster) *condition.Cause {
	for i := range cluster.LimitRanges {
		for j := range cluster.LimitRanges[i].Spec.Limits {
			item := &cluster.LimitRanges[i].Spec.Limits[j]
			if text := brokenRule(item, of); text != "" {
				return &condition.Cause{Reason: v1alpha1.ReasonOutsideLimitRange, Message: "LimitRange " + quote(cluster.LimitRanges[i].Name) +
					" of the namespace forbids the pod: " + text + ". Use an instancetype of a permitted size, or change the LimitRange"}
			}
		}
	}
	return nil
}

// brokenRule returns the rule that a pod breaks, empty if it keeps all of them.
func brokenRule(item *corev1.LimitRangeItem, of *corev1.Pod) string {
	switch item.Type {
	case corev1.LimitTypeContainer:
		for i := range of.Spec.Containers {
			if text := brokenBound(item, of.Spec.Containers[i].Resources); text != "" {
				return text
			}
		}
	case corev1.LimitTypePod:
		options := resourcehelper.PodResourcesOptions{}
		return brokenBound(item, corev1.ResourceRequirements{Requests: resourcehelper.PodRequests(of, options), Limits: resourcehelper.PodLimits(of, options)})
	}
	return ""
}

// brokenBound returns the bound of an item that requests and limits break. The names are sorted, so that the text stays the same.
func brokenBound(item *corev1.LimitRangeItem, has corev1.ResourceRequirements) string {
	for _, name := range slices.Sorted(maps.Keys(item.Min)) {
		bound := item.Min[name]
		request, requested := has.Requests[name]
		limit, limited := has.Limits[name]
		switch {
		case !requested || request.Cmp(bound) < 0:
			return fmt.Sprintf("it requests %s of %.253s, and the least is %s", shown(request, requested), name, bound.String())
		case limited && limit.Cmp(bound) < 0:
			return fmt.Sprintf("its limit of %.253s is %s, and the least is %s", name, limit.String(), bound.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.Max)) {
		bound := item.Max[name]
		request := has.Requests[name]
		limit, limited := has.Limits[name]
		switch {
		case !limited || limit.Cmp(bound) > 0:
			return fmt.Sprintf("its limit of %.253s is %s, and the most is %s", name, shown(limit, limited), bound.String())
		case request.Cmp(bound) > 0:
			return fmt.Sprintf("it requests %s of %.253s, and the most is %s", request.String(), name, bound.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.MaxLimitRequestRatio)) {
		most := item.MaxLimitRequestRatio[name]
		request, limit := has.Requests[name], has.Limits[name]
		if request.IsZero() || limit.IsZero() || limit.AsApproximateFloat64()/request.AsApproximateFloat64() > most.AsApproximateFloat64() {
			return fmt.Sprintf("its limit of %.253s is %s and its request %s, and the limit may be %s times the request", name,
				shown(limit, !limit.IsZero()), shown(request, !request.IsZero()), most.String())
		}
	}
	return ""
}

// shown returns a quantity, or 'nothing'.
func shown(quantity resource.Quantity, set bool) string {
	return cmp.Or(map[bool]string{true: quantity.String()}[set], "nothing")
}
