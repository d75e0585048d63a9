package guestprofile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/profile"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// judged is a profile with its new status.
type judged struct {
	kind   string
	object client.Object
	// parsed has no profile if the object cannot be read; its mistakes are the reasons.
	parsed
	status v1alpha1.GuestProfileStatus
	// newCPU is the new status.commonCPU of a ClusterGuestProfile; nil without spec.commonCPU.
	newCPU *v1alpha1.CommonCPUStatus
}

// listProfiles reads the profiles of a kind; of a namespace if the kind has one.
func (c *Controller) listProfiles(ctx context.Context, kind, namespace string) (found []*judged, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
	if err := c.Cached.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing %ss: %w", kind, err)
	}
	for i := range list.Items {
		one, err := c.memo.readProfile(kind, &list.Items[i])
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

func readableProfiles(found []*judged) (all []*profile.Profile) {
	for _, one := range found {
		if one.profile != nil {
			all = append(all, one.profile)
		}
	}
	return all
}

// namespaceLabels returns the labels of a namespace; nil if it does not exist.
func (c *Controller) namespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Cached.Get(ctx, client.ObjectKey{Name: namespace}, found); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading namespace '%s': %w", namespace, err)
	}
	return found.Labels, nil
}

// judgeOwn judges the GuestProfiles of a namespace, and keeps its share in the status of ClusterGuestProfiles.
func (c *Controller) judgeOwn(ctx context.Context, namespace string, own, shared []*judged) error {
	labels, err := c.namespaceLabels(ctx, namespace)
	if err != nil {
		return err
	}
	all := slices.Concat(own, shared)
	if err := c.countSelected(ctx, all, namespace, labels); err != nil {
		return err
	}
	conflicts, complete := profile.Conflicts(readableProfiles(all), func(string) map[string]string { return labels })
	cluster := c.Configuration()
	var errs []error
	for _, one := range own {
		one.status.Conditions = []metav1.Condition{c.memo.acceptedCondition(one, all, cluster), one.conflictingCondition(conflictsInWords(one, conflicts), complete)}
		errs = append(errs, c.writeStatus(ctx, one))
	}
	common := share{selected: map[string]int32{}, conflicts: map[string][]string{}, complete: complete}
	for _, one := range shared {
		if one.status.Selected > 0 {
			common.selected[one.object.GetName()] = one.status.Selected
		}
		with := maps.Clone(conflicts)
		if one.profile != nil {
			with[one.profile] = slices.DeleteFunc(slices.Clone(conflicts[one.profile]), func(c profile.Conflict) bool { return c.With.Namespace == "" })
		}
		if found := conflictsInWords(one, with); len(found) > 0 {
			common.conflicts[one.object.GetName()] = found
		}
	}
	c.noteShare(namespace, common)
	return errors.Join(errs...)
}

// noteShare keeps the share of a namespace, and queues the ClusterGuestProfiles if it has changed.
func (c *Controller) noteShare(namespace string, common share) {
	if was, known := c.shares[namespace]; known && reflect.DeepEqual(was, common) {
		return
	}
	if c.shares == nil {
		c.shares = map[string]share{}
	}
	c.shares[namespace] = common
	select {
	case c.shared <- event.GenericEvent{}:
	default: // an event is pending already
	}
}

// judgeShared judges the ClusterGuestProfiles after each namespace has been judged since the start of this process. Before that, the counts would be too
// small.
func (c *Controller) judgeShared(ctx context.Context, shared []*judged) (ctrl.Result, error) {
	if len(shared) == 0 {
		c.common = nil
		return ctrl.Result{}, nil
	}
	namespaces, err := c.listNamespaces(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, namespace := range namespaces {
		if _, judged := c.shares[namespace]; !judged {
			return ctrl.Result{RequeueAfter: pause}, nil
		}
	}
	maps.DeleteFunc(c.shares, func(namespace string, _ share) bool { return !slices.Contains(namespaces, namespace) })
	again, err := c.findCommonCPUs(ctx, shared)
	if err != nil {
		return ctrl.Result{}, err
	}
	conflicts, complete := profile.Conflicts(readableProfiles(shared), func(string) map[string]string { return nil })
	for _, common := range c.shares {
		complete = complete && common.complete
	}
	cluster := c.Configuration()
	var errs []error
	for _, one := range shared {
		others, name := conflictsInWords(one, conflicts), one.object.GetName()
		for _, namespace := range slices.Sorted(maps.Keys(c.shares)) {
			one.status.Selected += c.shares[namespace].selected[name]
			others = append(others, c.shares[namespace].conflicts[name]...)
		}
		others = others[:min(len(others), mostConflicts)]
		one.status.Conditions = append(one.status.Conditions, c.memo.acceptedCondition(one, shared, cluster), one.conflictingCondition(others, complete))
		errs = append(errs, c.writeStatus(ctx, one))
		if one.hasNewCPU() {
			again = pause // then the profile is judged with the CPU
		}
	}
	return ctrl.Result{RequeueAfter: again}, errors.Join(errs...)
}

// countSelected counts the VMs of a namespace that each profile selects, and the VMIs without a VM.
func (c *Controller) countSelected(ctx context.Context, found []*judged, namespace string, labels map[string]string) error {
	var machines v1.VirtualMachineList
	if err := c.Cached.List(ctx, &machines, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing VMs: %w", err)
	}
	for i := range machines.Items {
		if template := machines.Items[i].Spec.Template; template != nil {
			countVMI(found, &template.ObjectMeta, labels)
		}
	}
	var guests v1.VirtualMachineInstanceList
	if err := c.Cached.List(ctx, &guests, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing VMIs: %w", err)
	}
	for i := range guests.Items {
		if owner := metav1.GetControllerOf(&guests.Items[i]); owner == nil || owner.Kind != v1.VirtualMachineGroupVersionKind.Kind {
			countVMI(found, &guests.Items[i].ObjectMeta, labels)
		}
	}
	return nil
}

// countVMI counts one VMI, by the labels and annotations that select it. namespace has the labels of its namespace.
func countVMI(found []*judged, guest *metav1.ObjectMeta, namespace map[string]string) {
	vmi := v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Labels: guest.Labels, Annotations: guest.Annotations}}
	for _, one := range found {
		if p := one.profile; p != nil && p.InNamespace(namespace) && p.Selects(&vmi) {
			one.status.Selected++
		}
	}
}

// acceptedCondition returns the condition Accepted, which is False if new VMIs that the profile selects are refused. visible are the profiles that it may
// extend.
func (j *judged) acceptedCondition(visible []*profile.Profile, cluster config.Cluster) metav1.Condition {
	result := metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, ObservedGeneration: j.object.GetGeneration(),
	}
	refuse := func(reason string, mistakes field.ErrorList) metav1.Condition {
		result.Status, result.Reason = metav1.ConditionFalse, reason
		result.Message = condition.WholeMessage(mistakes.ToAggregate().Error())
		return result
	}
	if j.profile == nil {
		if slices.ContainsFunc(j.mistakes, func(err *field.Error) bool { return err.Origin == "profile/selector" }) {
			return refuse(v1alpha1.ReasonInvalidSelector, j.mistakes)
		}
		return refuse(v1alpha1.ReasonInvalidField, j.mistakes)
	}
	verdict := profile.Judge(j.profile, visible, cluster)
	switch {
	case slices.ContainsFunc(verdict.Errors, func(err *field.Error) bool { return err.Origin == "profile/circular" }):
		return refuse(v1alpha1.ReasonCircular, verdict.Errors)
	case len(verdict.Errors) > 0:
		return refuse(v1alpha1.ReasonInvalidField, verdict.Errors)
	case len(verdict.Missing) > 0:
		result.Status, result.Reason = metav1.ConditionFalse, v1alpha1.ReasonBaseMissing
		result.Message = condition.WholeMessage(strings.Join(verdict.Warnings, "; "))
	case len(verdict.WithoutCPU) > 0:
		result.Status, result.Reason = metav1.ConditionFalse, v1alpha1.ReasonCommonCPUMissing
		result.Message = condition.WholeMessage(fmt.Sprintf("%s has no CPU yet that its nodes have in common: its condition %s says why", verdict.WithoutCPU[0],
			v1alpha1.ConditionCommonCPU))
	}
	return result
}

// mostConflicts bounds the profiles that a condition names, as profile.Conflicts does within one namespace.
const mostConflicts = 10

// conflictsInWords returns a text for each profile that conflicts with one, with the fields that differ.
func conflictsInWords(one *judged, conflicts map[*profile.Profile][]profile.Conflict) (others []string) {
	if one.profile == nil {
		return nil
	}
	for _, c := range conflicts[one.profile] {
		others = append(others, fmt.Sprintf("%s (%s)", c.With, strings.Join(c.Fields, ", ")))
	}
	return others
}

// conflictingCondition returns the condition Conflicting, which names the profiles in others.
func (j *judged) conflictingCondition(others []string, complete bool) metav1.Condition {
	result := metav1.Condition{
		Type: v1alpha1.ConditionConflicting, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoConflict, ObservedGeneration: j.object.GetGeneration(),
	}
	switch {
	case len(others) > 0:
		result.Status, result.Reason = metav1.ConditionTrue, v1alpha1.ReasonFieldsDiffer
		result.Message = condition.WholeMessage(fmt.Sprintf(
			"VMIs that this profile and one of the following select are refused, because both have priority %d and differ: %s",
			j.profile.Spec.Priority, strings.Join(others, ", ")))
	case !complete:
		result.Status, result.Reason = metav1.ConditionUnknown, v1alpha1.ReasonTooManyProfiles
		result.Message = "too many profiles have one priority to compare each with all others"
	}
	return result
}
