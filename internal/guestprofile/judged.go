package guestprofile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/profile"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var kinds = []string{v1alpha1.KindGuestProfile, v1alpha1.KindClusterGuestProfile}

// judged is a profile with its new status.
type judged struct {
	kind   string
	object client.Object
	// profile is nil where the object cannot be read; mistakes are why.
	profile  *profile.Profile
	mistakes field.ErrorList
	status   v1alpha1.GuestProfileStatus
}

// read reads all profiles.
func (c *Controller) read(ctx context.Context) (found []*judged, err error) {
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
		if err := c.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %ss: %w", kind, err)
		}
		for i := range list.Items {
			one, err := judgedOf(kind, &list.Items[i])
			if err != nil {
				return nil, err
			}
			found = append(found, one)
		}
	}
	return found, nil
}

func judgedOf(kind string, from *unstructured.Unstructured) (*judged, error) {
	one := &judged{kind: kind, object: &v1alpha1.GuestProfile{}}
	if kind == v1alpha1.KindClusterGuestProfile {
		one.object = &v1alpha1.ClusterGuestProfile{}
	}
	raw, err := json.Marshal(from.Object)
	if err != nil {
		return nil, err
	}
	// The typed object is for its metadata and status. What its type drops of the spec is not written: the patch is of the status alone.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{
		"apiVersion": from.GetAPIVersion(), "kind": kind, "metadata": from.Object["metadata"], "status": from.Object["status"],
	}, one.object); err != nil {
		return nil, fmt.Errorf("reading %s '%s': %w", kind, from.GetName(), err)
	}
	one.profile, one.mistakes = profile.Check("", raw)
	return one, nil
}

func readable(found []*judged) (all []*profile.Profile) {
	for _, one := range found {
		if one.profile != nil {
			all = append(all, one.profile)
		}
	}
	return all
}

// namespaces returns the labels of all namespaces.
func (c *Controller) namespaces(ctx context.Context) (map[string]map[string]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := c.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	found := map[string]map[string]string{}
	for i := range list.Items {
		found[list.Items[i].Name] = list.Items[i].Labels
	}
	return found, nil
}

// count counts the VMs and the VMIs without a VM that each profile selects.
func (c *Controller) count(ctx context.Context, found []*judged) error {
	namespaces, err := c.namespaces(ctx)
	if err != nil {
		return err
	}
	var machines v1.VirtualMachineList
	if err := c.Cached.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing VMs: %w", err)
	}
	for i := range machines.Items {
		if template := machines.Items[i].Spec.Template; template != nil {
			counted(found, &template.ObjectMeta, machines.Items[i].Namespace, namespaces)
		}
	}
	var guests v1.VirtualMachineInstanceList
	if err := c.Cached.List(ctx, &guests, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing VMIs: %w", err)
	}
	for i := range guests.Items {
		if owner := metav1.GetControllerOf(&guests.Items[i]); owner == nil || owner.Kind != v1.VirtualMachineGroupVersionKind.Kind {
			counted(found, &guests.Items[i].ObjectMeta, guests.Items[i].Namespace, namespaces)
		}
	}
	return nil
}

// counted counts one VMI, of which selection asks labels and annotations alone.
func counted(found []*judged, guest *metav1.ObjectMeta, namespace string, namespaces map[string]map[string]string) {
	vmi := v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Labels: guest.Labels, Annotations: guest.Annotations}}
	for _, one := range found {
		p := one.profile
		if p == nil || p.Namespace != "" && p.Namespace != namespace || !p.InNamespace(namespaces[namespace]) || !p.Selects(&vmi) {
			continue
		}
		one.status.Selected++
	}
}

// longest is the API server's maximum for the message of a condition, in characters: a longer one would have the whole status refused.
const longest = 32768

// accepted returns condition Accepted, which is False where new VMIs that the profile selects are refused.
func (j *judged) accepted(found []*judged, cluster config.Cluster) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, ObservedGeneration: j.object.GetGeneration(),
	}
	refuse := func(reason string, mistakes field.ErrorList) metav1.Condition {
		condition.Status, condition.Reason = metav1.ConditionFalse, reason
		condition.Message = fmt.Sprintf("%.*s", longest, mistakes.ToAggregate().Error())
		return condition
	}
	if j.profile == nil {
		if slices.ContainsFunc(j.mistakes, func(err *field.Error) bool { return err.Origin == "profile/selector" }) {
			return refuse(v1alpha1.ReasonInvalidSelector, j.mistakes)
		}
		return refuse(v1alpha1.ReasonInvalidField, j.mistakes)
	}
	visible := slices.DeleteFunc(readable(found), func(p *profile.Profile) bool { return p.Namespace != "" && p.Namespace != j.profile.Namespace })
	verdict := profile.Judge(j.profile, visible, cluster)
	switch {
	case slices.ContainsFunc(verdict.Errors, func(err *field.Error) bool { return err.Origin == "profile/circular" }):
		return refuse(v1alpha1.ReasonCircular, verdict.Errors)
	case len(verdict.Errors) > 0:
		return refuse(v1alpha1.ReasonInvalidField, verdict.Errors)
	case len(verdict.Missing) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonBaseMissing
		condition.Message = fmt.Sprintf("%.*s", longest, strings.Join(verdict.Warnings, "; "))
	}
	return condition
}

// conflicting names the profiles that disagree, each with the fields. profile.Conflicts bounds the message: ten names of 253 characters.
func (j *judged) conflicting(conflicts map[*profile.Profile][]profile.Conflict, complete bool) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionConflicting, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoConflict, ObservedGeneration: j.object.GetGeneration(),
	}
	var others []string
	if j.profile != nil {
		for _, c := range conflicts[j.profile] {
			others = append(others, fmt.Sprintf("%s (%s)", c.With, strings.Join(c.Fields, ", ")))
		}
	}
	switch {
	case len(others) > 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonFieldsDiffer
		condition.Message = fmt.Sprintf("%.*s", longest, fmt.Sprintf(
			"VMIs that this profile and one of the following select are refused, because both have priority %d and differ: %s",
			j.profile.Spec.Priority, strings.Join(others, ", ")))
	case !complete:
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonTooManyProfiles
		condition.Message = "too many profiles have one priority to compare each with all others"
	}
	return condition
}
