// Package vmistatus writes what the pod of a VMI, its launcher and its node report into the status of the VMI. It reads nothing from the cluster and writes
// nothing to it.
//
// A tenant may be the launcher. So texts of a launcher or guest agent are bounded, on one line and without control characters, and a reason that asks for
// another start without a back-off is not taken from them.
package vmistatus

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Report is what the status of a VMI that has not ended depends on.
type Report struct {
	observed.Objects
	// Refusal is why the controller does not do the next step of the start; nil if it does.
	Refusal *condition.Cause
	// MountFailure is the event that says why the pod has no container. It is empty if the pod has one, or kubelet may still start it.
	MountFailure string
	// UnboundClaims says which claims of the pod are not bound. It is empty if the pod waits for another reason.
	UnboundClaims string
	// PendingHotplug is nil if the pod has the resources that the VMI asks for.
	PendingHotplug *PendingHotplug
	// HotplugUnknown reports that PendingHotplug was not computed. The conditions about it then stay as they are.
	HotplugUnknown bool
}

// Write writes the report into a copy of the VMI. It returns after which time the status may change without an event, 0 if never.
func (r Report) Write(vmi *v1.VirtualMachineInstance, now time.Time) (recheck time.Duration) {
	recheck = r.setState(vmi, now)
	r.setPendingChanges(vmi)
	return recheck
}

// setState writes the phase, the conditions Ready, Synchronized and Paused, and what pod and agent report.
func (r Report) setState(vmi *v1.VirtualMachineInstance, now time.Time) (recheck time.Duration) {
	if r.RecordedPod() == nil {
		if r.Refusal != nil {
			condition.SetRefused(vmi, *r.Refusal)
		}
		return 0
	}
	setPod(vmi, r.Pod)
	if r.Pod.Spec.NodeName != "" && vmi.Status.Phase == v1.Scheduling {
		condition.SetPhase(vmi, v1.Scheduled)
	}
	lost, recheck := nodeLostCause(r.Pod, now)
	setAgent(vmi, r.agentReport(lost))
	setCredentials(vmi, r.credentialReport(lost))
	switch started := r.Domain() != nil || vmi.Status.Phase == v1.Running; {
	case started:
		condition.SetPhase(vmi, v1.Running)
		r.setDomain(vmi, lost)
	case lost != nil:
		r.setWaitCause(vmi, lost)
	default:
		cause, again := r.waitCause(now)
		r.setWaitCause(vmi, cause)
		if recheck == 0 || again > 0 && again < recheck {
			recheck = again
		}
	}
	return recheck
}

// setDomain writes the state of a guest that has started. A guest that has ended is not ready: its VMI gets the final phase when the pod has ended.
// Trap: each condition is written once. Otherwise its transition time would change each time, and the status would be written without end.
func (r Report) setDomain(vmi *v1.VirtualMachineInstance, lost *condition.Cause) {
	domain := r.Domain()
	switch {
	case lost != nil:
		condition.SetReady(vmi, corev1.ConditionFalse, *lost)
		return
	case domain == nil: // the launcher has withdrawn the report, or somebody has deleted the GuestPod
		return
	case observed.HasEnded(domain.State):
		condition.SetReady(vmi, corev1.ConditionFalse, domainCause(domain))
		condition.Clear(vmi, v1.VirtualMachineInstancePaused)
		return
	}
	if vmi.Status.Machine == nil && domain.Machine != "" {
		vmi.Status.Machine = &v1.Machine{Type: condition.OneLine(domain.Machine)}
	}
	condition.SetSynchronized(vmi, corev1.ConditionTrue, condition.Cause{Reason: v1alpha1.ReasonStarted})
	if domain.State == v1alpha1.GuestPaused {
		condition.SetPaused(vmi, domainCause(domain))
		return
	}
	if ready := observed.PodCondition(r.Pod, corev1.PodReady); ready != nil && ready.Status == corev1.ConditionFalse {
		condition.Clear(vmi, v1.VirtualMachineInstancePaused)
		condition.SetReady(vmi, corev1.ConditionFalse, condition.Cause{Reason: v1alpha1.ReasonPodNotReady,
			Message: strings.TrimSpace(ready.Reason + " " + ready.Message)})
		return
	}
	condition.SetRunning(vmi)
}

// setWaitCause writes why a guest does not start, or with nil that no reason is known.
func (r Report) setWaitCause(vmi *v1.VirtualMachineInstance, cause *condition.Cause) {
	was := condition.Of(vmi, v1.VirtualMachineInstanceSynchronized)
	switch {
	case was != nil && isHardwareReason(was.Reason) && !r.HardwareRecorded() && r.Pod.Spec.NodeName != "":
		// The reconciler of GuestHardware has written the condition, and writes it again as long as it holds.
	case cause != nil:
		condition.SetRefused(vmi, *cause)
	case was != nil && was.Status == corev1.ConditionFalse:
		condition.Clear(vmi, v1.VirtualMachineInstanceSynchronized)
		condition.SetReady(vmi, corev1.ConditionFalse, condition.CauseStarting)
	}
}

// isHardwareReason reports whether internal/lifecycle writes a reason into Synchronized because the GuestHardware cannot be assigned.
func isHardwareReason(reason string) bool {
	return reason == v1alpha1.ReasonNameTaken || reason == v1alpha1.ReasonHardwareForeign || reason == v1alpha1.ReasonFailedPin
}

// waitCause returns why the guest does not start, nil if no reason is known. The cause of the pod comes first, then the refusal of the controller, then the
// refusal of the launcher.
func (r Report) waitCause(now time.Time) (*condition.Cause, time.Duration) {
	cause, recheck := podWaitCause(r.Pod, now)
	switch {
	case cause != nil && cause.Reason == v1alpha1.ReasonPodStarting && r.MountFailure != "":
		return &condition.Cause{Reason: cause.Reason, Message: r.MountFailure}, recheck
	case cause != nil:
		return cause, recheck
	case r.UnboundClaims != "":
		return &condition.Cause{Reason: v1alpha1.ReasonWaitingForVolumeBinding, Message: r.UnboundClaims}, recheck
	case r.Refusal != nil:
		return r.Refusal, recheck
	}
	if guest := r.GuestPodOfPod(); guest != nil && guest.Status.Refusal != nil {
		refusal := guest.Status.Refusal
		return &condition.Cause{Reason: validReason(refusal.Reason, v1alpha1.ReasonStartFailed), Message: condition.OneLine(refusal.Message)}, recheck
	}
	return nil, recheck
}

// domainCause returns the cause that a launcher reports for a domain that does not run. A reason for which a guest starts again without a back-off is replaced.
func domainCause(domain *v1alpha1.GuestDomain) condition.Cause {
	byState := map[v1alpha1.GuestDomainState]string{
		v1alpha1.GuestPaused: v1alpha1.ReasonPaused, v1alpha1.GuestPoweredOff: v1alpha1.ReasonPoweredOff, v1alpha1.GuestDestroyed: v1alpha1.ReasonDestroyed,
	}[domain.State]
	reported := domain.Reason
	if condition.IsFromOutside(reported) {
		reported = ""
	}
	return condition.Cause{Reason: validReason(reported, cmp.Or(byState, v1alpha1.ReasonCrashed)), Message: condition.OneLine(domain.Message)}
}

// reasonFormat is what the API server accepts as a reason of a condition.
var reasonFormat = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,63}$`)

// validReason returns a reason that a tenant may have written if it is valid, otherwise the fallback.
func validReason(reason, fallback string) string {
	if reasonFormat.MatchString(reason) {
		return reason
	}
	return fallback
}
