package vmipod

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/internal/vmipod/vmistatus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// finalPhase ends VMIs whose pods have ended.
type finalPhase struct {
	*environment
	running *runningHardware
}

// setFinalPhase writes the final phase of a VMI. If the cache lacks the recorded pod, the API server is asked first: the cache may lag behind.
func (f finalPhase) setFinalPhase(ctx context.Context, o observed.Objects) (done outcome, err error) {
	if o.RecordedPod() == nil {
		o.Pod = nil // somebody else's pod says nothing about this guest
	}
	if o.Pod == nil && len(o.VMI.Status.ActivePods) > 0 {
		pod, err := objects.GetOrNil(ctx, f.Live, observed.PodKey(o.Key), &corev1.Pod{})
		if err != nil {
			return done, err
		}
		if pod != nil && observed.IsRecorded(o.VMI, pod.UID) {
			return outcome{after: conflictRetry}, nil
		}
	}
	// The launcher reports the end and then ends: the cache may have the end of its pod and lack the report.
	if o.GuestPod, err = objects.GetOrNil(ctx, f.Live, o.Key, &v1alpha1.GuestPod{}); err != nil {
		return done, err
	}
	if err := f.running.removeStatus(ctx, o); err != nil {
		return done, err
	}
	ended := o.VMI.DeepCopy()
	phase, cause := vmistatus.SetFinal(ended, o)
	if err := f.patchVMIStatus(ctx, ended, o.VMI); err != nil {
		return done, client.IgnoreNotFound(err)
	}
	kind := condition.EndEvent(phase, cause)
	f.writeEvent(o.VMI, kind, cause)
	if kind == corev1.EventTypeWarning && metav1.GetControllerOf(o.VMI) == nil {
		condition.Log(ctx, o.VMI, "vmi", cause)
	}
	return done, nil
}
