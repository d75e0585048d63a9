package vmipod

import (
	"context"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/internal/vmipod/vmistatus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statusReport writes the status of VMIs that have not ended.
type statusReport struct {
	*environment
	limits        rateLimits
	mountFailures *mountFailures
	unboundClaims *unboundClaims
}

func (s *statusReport) forgetVMI(vmi types.NamespacedName) {
	s.limits.forgetVMI(vmi)
	s.mountFailures.limits.forgetVMI(vmi)
	s.unboundClaims.limits.forgetVMI(vmi)
}

// writeStatus writes the status of a VMI if it has changed, with one write for all changes. A launcher that reports other states all the time is followed at a
// bounded rate.
func (s *statusReport) writeStatus(ctx context.Context, o observed.Objects, done *outcome) error {
	report := vmistatus.Report{Objects: o, Refusal: done.refusal, PendingHotplug: done.pendingHotplug, HotplugUnknown: done.hotplugUnknown}
	if vmistatus.StartsLate(o, s.Now()) {
		report.MountFailure = s.mountFailures.describeFailure(ctx, o, done)
	}
	report.UnboundClaims = s.unboundClaims.describeClaims(ctx, o, done)
	changed := o.VMI.DeepCopy()
	done.requeueAfter(report.Write(changed, s.Now()))
	if equality.Semantic.DeepEqual(o.VMI.Status, changed.Status) {
		return nil
	}
	if wait := s.limits.timeUntilNext(o.Key, s.Now(), statusesPerSecond, statusBurst); wait > 0 {
		done.requeueAfter(wait)
		return nil
	}
	if err := s.patchVMIStatus(ctx, changed, o.VMI); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.writeEvents(ctx, changed, o.VMI)
	return nil
}

// writeEvents writes events about the phase Running, accessCredentials, and a new reason why the guest does not start.
func (s *statusReport) writeEvents(ctx context.Context, changed, before *v1.VirtualMachineInstance) {
	if before.Status.Phase != v1.Running && changed.Status.Phase == v1.Running {
		s.writeEvent(before, corev1.EventTypeNormal, condition.Cause{Reason: string(v1.Started), Message: "the guest runs"})
	}
	s.writeCredentialEvent(changed, before)
	cause := newRefusal(changed, before)
	if cause == nil {
		return
	}
	s.writeEvent(before, corev1.EventTypeWarning, *cause)
	was := condition.Of(before, v1.VirtualMachineInstanceSynchronized)
	if metav1.GetControllerOf(before) == nil && (was == nil || was.Reason != cause.Reason) { // the controller of VMs logs the causes of the others
		condition.Log(ctx, before, "vmi", *cause)
	}
}

// writeCredentialEvent writes KubeVirt's event about a changed result of accessCredentials.
func (s *statusReport) writeCredentialEvent(changed, before *v1.VirtualMachineInstance) {
	const kind = v1.VirtualMachineInstanceAccessCredentialsSynchronized
	was, is := condition.Of(before, kind), condition.Of(changed, kind)
	switch {
	case is == nil || was != nil && was.Status == is.Status && was.Message == is.Message:
	case is.Status == corev1.ConditionTrue:
		s.writeEvent(before, corev1.EventTypeNormal, condition.Cause{Reason: v1.AccessCredentialsSyncSuccess.String(),
			Message: "the guest has the keys and passwords of accessCredentials"})
	default:
		s.writeEvent(before, corev1.EventTypeWarning, condition.Cause{Reason: v1.AccessCredentialsSyncFailed.String(), Message: is.Message})
	}
}

// newRefusal returns why a guest does not start, nil if the status before had the same cause: a refusal that lasts is one event.
func newRefusal(changed, before *v1.VirtualMachineInstance) *condition.Cause {
	was, is := condition.Of(before, v1.VirtualMachineInstanceSynchronized), condition.Of(changed, v1.VirtualMachineInstanceSynchronized)
	if is == nil || is.Status != corev1.ConditionFalse || was != nil && was.Reason == is.Reason && was.Message == is.Message {
		return nil
	}
	return &condition.Cause{Reason: is.Reason, Message: is.Message}
}

// currentMessage returns the message of condition Synchronized if the condition has the reason, else nothing.
func currentMessage(vmi *v1.VirtualMachineInstance, reason string) string {
	if current := condition.Of(vmi, v1.VirtualMachineInstanceSynchronized); current != nil && current.Reason == reason {
		return current.Message
	}
	return ""
}
