package vmipod

import (
	"cmp"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// follow writes into a copy of the VMI what its pod and its launcher say, or why it has no pod. It returns the time after which time alone changes that.
func (s seen) follow(vmi *v1.VirtualMachineInstance, refusal *condition.Cause, now time.Time) (after time.Duration) {
	if s.pod == nil || !recorded(s.vmi, s.pod.UID) {
		if refusal != nil {
			condition.SetRefused(vmi, *refusal)
		}
		return 0
	}
	s.describe(vmi)
	if s.pod.Spec.NodeName != "" && vmi.Status.Phase == v1.Scheduling {
		condition.SetPhase(vmi, v1.Scheduled)
	}
	lost, after := s.nodeLost(now)
	domain := s.domain()
	followAgent(vmi, s.agent(domain, lost))
	switch started := domain != nil || vmi.Status.Phase == v1.Running; {
	case started:
		condition.SetPhase(vmi, v1.Running)
		s.followDomain(vmi, domain, lost)
	case lost != nil:
		s.explain(vmi, lost)
	default:
		why, again := s.hindrance(refusal, now)
		s.explain(vmi, why)
		if after == 0 || again > 0 && again < after {
			after = again
		}
	}
	return after
}

// followDomain writes the state of a guest that was started. One that has ended is not ready; its VMI gets the final phase when the pod has ended.
// Trap: each condition is written once, or its transition time would change each time, and the status would be written without end.
func (s seen) followDomain(vmi *v1.VirtualMachineInstance, domain *v1alpha1.GuestDomain, lost *condition.Cause) {
	switch {
	case lost != nil:
		condition.SetReady(vmi, corev1.ConditionFalse, *lost)
		return
	case domain == nil: // its launcher has taken the report back, or somebody has deleted the GuestPod
		return
	case final(domain.State):
		condition.SetReady(vmi, corev1.ConditionFalse, reported(domain))
		condition.Clear(vmi, v1.VirtualMachineInstancePaused)
		return
	}
	if vmi.Status.Machine == nil && domain.Machine != "" {
		vmi.Status.Machine = &v1.Machine{Type: plain(domain.Machine)}
	}
	condition.SetSynchronized(vmi, corev1.ConditionTrue, condition.Cause{Reason: v1alpha1.ReasonStarted})
	if domain.State == v1alpha1.GuestPaused {
		condition.SetPaused(vmi, reported(domain))
		return
	}
	if ready := podCondition(s.pod, corev1.PodReady); ready != nil && ready.Status == corev1.ConditionFalse {
		condition.Clear(vmi, v1.VirtualMachineInstancePaused)
		condition.SetReady(vmi, corev1.ConditionFalse, condition.Cause{Reason: v1alpha1.ReasonPodNotReady,
			Message: strings.TrimSpace(ready.Reason + " " + ready.Message)})
		return
	}
	condition.SetRunning(vmi)
}

// explain writes why a guest does not start, or that nothing is known to keep it from that.
func (s seen) explain(vmi *v1.VirtualMachineInstance, why *condition.Cause) {
	was := condition.Of(vmi, v1.VirtualMachineInstanceSynchronized)
	switch {
	case was != nil && ofHardware(was.Reason) && !s.facts().hardwareRecorded && s.pod.Spec.NodeName != "":
		// The reconciler of GuestHardware has written it, and writes it again as long as it holds.
	case why != nil:
		condition.SetRefused(vmi, *why)
	case was != nil && was.Status == corev1.ConditionFalse:
		condition.Clear(vmi, v1.VirtualMachineInstanceSynchronized)
		condition.SetReady(vmi, corev1.ConditionFalse, condition.CauseStarting)
	}
}

// ofHardware reports whether a reason of Synchronized is one that internal/lifecycle writes: the GuestHardware cannot be assigned.
func ofHardware(reason string) bool {
	return reason == v1alpha1.ReasonNameTaken || reason == v1alpha1.ReasonHardwareForeign || reason == v1alpha1.ReasonFailedPin
}

// hindrance returns what keeps the guest from starting, nil if nothing is known to: the pod first, then what Kiln refuses, then the launcher.
func (s seen) hindrance(refusal *condition.Cause, now time.Time) (*condition.Cause, time.Duration) {
	why, after := waiting(s.pod, now)
	switch {
	case why != nil && why.Reason == v1alpha1.ReasonPodStarting && s.mountFailure != "":
		return &condition.Cause{Reason: why.Reason, Message: s.mountFailure}, after
	case why != nil:
		return why, after
	case s.unbound != "":
		return &condition.Cause{Reason: v1alpha1.ReasonWaitingForVolumeBinding, Message: s.unbound}, after
	case refusal != nil:
		return refusal, after
	}
	if guest := s.guestPod(); guest != nil && guest.Status.Refusal != nil {
		return &condition.Cause{Reason: reason(guest.Status.Refusal.Reason, v1alpha1.ReasonStartFailed), Message: plain(guest.Status.Refusal.Message)}, after
	}
	return nil, after
}

// guestPod returns the GuestPod of the pod, nil if there is none, or one of another pod.
func (s seen) guestPod() *v1alpha1.GuestPod {
	if s.guest == nil || s.pod == nil || s.guest.Spec.PodUID != s.pod.UID {
		return nil
	}
	return s.guest
}

// domain returns what the launcher says of the domain, nil before the first start. No domain starts before its hardware is recorded, whatever it says.
func (s seen) domain() *v1alpha1.GuestDomain {
	if guest := s.guestPod(); guest != nil && guest.Spec.Hardware != nil {
		return guest.Status.Domain
	}
	return nil
}

func final(state v1alpha1.GuestDomainState) bool {
	return state == v1alpha1.GuestPoweredOff || state == v1alpha1.GuestDestroyed || state == v1alpha1.GuestFailed
}

// reported returns the cause that a launcher reports of a domain that does not run. A tenant may have written it, so that it is never one of the reasons for
// which a guest starts again without a back-off.
func reported(domain *v1alpha1.GuestDomain) condition.Cause {
	otherwise := map[v1alpha1.GuestDomainState]string{
		v1alpha1.GuestPaused: v1alpha1.ReasonPaused, v1alpha1.GuestPoweredOff: v1alpha1.ReasonPoweredOff, v1alpha1.GuestDestroyed: v1alpha1.ReasonDestroyed,
	}[domain.State]
	said := domain.Reason
	if condition.IsFromOutside(said) {
		said = ""
	}
	return condition.Cause{Reason: reason(said, cmp.Or(otherwise, v1alpha1.ReasonCrashed)), Message: plain(domain.Message)}
}

// reasonForm is that of the API server for reasons of conditions.
var reasonForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,63}$`)

// reason returns a reason that a tenant may have written, or another one if it is none.
func reason(written, otherwise string) string {
	if reasonForm.MatchString(written) {
		return written
	}
	return otherwise
}

// plain returns a text that a tenant may have written on one line, and without control characters.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
}

// podCondition returns a condition of a pod, nil if it has none of this type.
func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
