package policyreport

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/policy"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
)

// evaluateObject evaluates the policies on one object of a namespace whose audit has begun at a time, and adds the results. An object on which they cannot be
// evaluated is a result, too: it must not hide the results of the others.
func (a *Auditor) evaluateObject(ctx context.Context, found *findings, object *unstructured.Unstructured, began time.Time) error {
	if object.GetDeletionTimestamp() != nil || object.GetKind() == v1.VirtualMachineInstanceGroupVersionKind.Kind && a.madeByVM(object) {
		return nil
	}
	if a.Now().Sub(began) > mostTime {
		found.addNotEvaluated(object, fmt.Errorf("the audit of the namespace had taken %s", mostTime))
		return ctx.Err()
	}
	result, err := a.reviewObject(ctx, object)
	var refusal *resolve.Refusal
	switch {
	case ctx.Err() != nil:
	case errors.As(err, &refusal):
		found.addNotEvaluated(object, refusal)
	case err != nil:
		found.addNotEvaluated(object, err)
		found.again = true
	default:
		found.addResults(object, result)
		a.annotateExcepted(ctx, found, object, result)
	}
	return ctx.Err()
}

// reviewObject returns what the policies say about a stored object. The error is a *resolve.Refusal if what the object refers to cannot be read by anybody. A
// panic is an error: the API server may have admitted the object while the webhook panicked on it.
func (a *Auditor) reviewObject(ctx context.Context, object *unstructured.Unstructured) (result policy.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostTimeOfObject)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			a.Log.Error(fmt.Errorf("panic: %v", r), "evaluating the policies", "kind", object.GetKind(), "namespace", object.GetNamespace(), "name", object.GetName(),
				"stack", string(debug.Stack()))
			err = errors.New("an internal error, which the log of the controller contains")
		}
	}()
	asker := review.UnknownAsker()
	if object.GetKind() == v1.VirtualMachineGroupVersionKind.Kind {
		vm := &v1.VirtualMachine{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, vm); err != nil {
			return result, err
		}
		reviewed, err := a.Reviewer.ReviewVM(ctx, vm, nil, asker)
		return reviewed.Policies, err
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, vmi); err != nil {
		return result, err
	}
	// A stored VMI may have fields that only controllers may write.
	asker.Name = a.Reviewer.Configuration().Limits.Controllers[0]
	reviewed, err := a.Reviewer.ReviewVMI(ctx, vmi, asker)
	if err == nil && !reviewed.Merged.Allowed() {
		err = &resolve.Refusal{Errors: reviewed.Merged.Errors}
	}
	return reviewed.Policies, err
}
