package policyreport

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/policy"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// mostAnnotated bounds the VMs of a namespace that are annotated in one round: an exception for labels may be for all of them.
const mostAnnotated = 500

// annotateExcepted writes the GuestPolicyExceptions that a VM needs into its annotation kilnvm.io/excepted, if the annotation differs. It is an annotation, and
// not a condition, because virt-controller removes the conditions of a VM that its VMI does not have. The report says the same, so a write that the API server
// refuses is only logged.
func (a *Auditor) annotateExcepted(ctx context.Context, found *findings, object *unstructured.Unstructured, result policy.Result) {
	value, has := object.GetAnnotations()[v1alpha1.AnnotationExcepted]
	needed := exceptionsOf(result)
	if object.GetKind() != v1.VirtualMachineGroupVersionKind.Kind || value == needed && has == (needed != "") {
		return
	}
	if found.annotated == mostAnnotated {
		found.again = true
		return
	}
	found.annotated++

	changed := object.DeepCopy()
	annotations := changed.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if annotations[v1alpha1.AnnotationExcepted] = needed; needed == "" {
		delete(annotations, v1alpha1.AnnotationExcepted)
	}
	changed.SetAnnotations(annotations)
	err := objects.Patch(ctx, a.Client, changed, object)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return
	case apierrors.IsConflict(err): // its next version is evaluated again
		found.again = true
	case !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err): // the others would wait for the same server
		found.again, found.annotated = true, mostAnnotated
	}
	a.Log.V(1).Info("annotation kilnvm.io/excepted was not written", "namespace", object.GetNamespace(), "name", object.GetName(), "reason", err.Error())
}

// exceptionsOf returns the exceptions by which an object violates policies, sorted by policy, on one line and as short as the note of an event; empty without
// one.
func exceptionsOf(result policy.Result) string {
	var all []string
	for _, v := range slices.SortedFunc(slices.Values(result.Violations), func(x, y policy.Violation) int { return cmp.Compare(x.Policy, y.Policy) }) {
		if v.Exception == "" {
			continue
		}
		all = append(all, fmt.Sprintf("GuestPolicy '%s' until %s by GuestPolicyException '%s'", v.Policy, v.Until.UTC().Format(time.RFC3339), v.Exception))
	}
	return condition.Note(condition.OneLine(strings.Join(slices.Compact(all), "; ")))
}
