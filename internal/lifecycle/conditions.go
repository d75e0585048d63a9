package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// ownConditions are the condition types that this controller sets and clears.
var ownConditions = []v1.VirtualMachineConditionType{
	v1.VirtualMachineReady, v1.VirtualMachinePaused, v1.VirtualMachineFailure,
	v1.VirtualMachineConditionType(v1.VirtualMachineInstanceSynchronized), v1.VirtualMachineRestartRequired, v1alpha1.ConditionPinsLost,
	v1alpha1.ConditionFieldsWithoutEffect, v1alpha1.ConditionPlaceable,
}

// nextConditions returns the VM's conditions. Ready is always present, with the reason while it is False. Paused and Synchronized are copied from the VMI.
// Failure says what keeps the VM from its run strategy, RestartRequired that an edit waits for a restart, PinsLost that a backup
// lacked revisions, FieldsWithoutEffect what the runtime ignores, and Placeable whether the cluster could run the guest. Conditions of other types stay.
func (s *state) nextConditions() []v1.VirtualMachineCondition {
	ready := v1.VirtualMachineCondition{Type: v1.VirtualMachineReady, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonVMINotExists,
		Message: "there is no virtual machine instance"}
	if end := s.lastGuestEnd(); end != nil {
		ready.Reason, ready.Message = end.Reason, end.Message
	} else if s.failure != nil {
		ready.Reason, ready.Message = s.failure.reason, s.failure.message
	} else if s.vmi == nil && s.awaitedVolume != nil {
		ready.Reason, ready.Message = s.awaitedVolume.Reason, condition.Message(s.awaitedVolume.Message)
	}
	var copied []v1.VirtualMachineCondition
	if s.vmi != nil {
		ready.Reason, ready.Message = condition.CauseStarting.Reason, condition.CauseStarting.Message
		for _, c := range s.vmi.Status.Conditions {
			// The message is bounded again, because others than Kiln may have written the VMI's status.
			same := v1.VirtualMachineCondition{Type: v1.VirtualMachineConditionType(c.Type), Status: c.Status, Reason: c.Reason, Message: condition.Message(c.Message)}
			switch c.Type {
			case v1.VirtualMachineInstanceReady:
				ready = same
				// For 'kubectl get vm -o wide': the status of a VM has no field for the node.
				if same.Status == corev1.ConditionTrue && same.Message == "" && s.vmi.Status.NodeName != "" {
					ready.Message = condition.Message(fmt.Sprintf("the guest runs on node '%s'", s.vmi.Status.NodeName))
				}
			case v1.VirtualMachineInstancePaused, v1.VirtualMachineInstanceSynchronized:
				copied = append(copied, same)
			}
		}
	}
	all := append([]v1.VirtualMachineCondition{ready}, copied...)
	if s.failure != nil {
		all = append(all, v1.VirtualMachineCondition{Type: v1.VirtualMachineFailure, Status: corev1.ConditionTrue, Reason: s.failure.reason,
			Message: s.failure.message})
	}
	if s.pending.message != "" {
		all = append(all, v1.VirtualMachineCondition{Type: v1.VirtualMachineRestartRequired, Status: corev1.ConditionTrue,
			Reason: v1alpha1.ReasonRestartRequired, Message: s.pending.message})
	}
	if s.pendingUnknown {
		all = append(all, conditionsOfType(s.vm, v1.VirtualMachineRestartRequired)...)
	}
	if text := lostPinsMessage(s.vm); text != "" {
		all = append(all, v1.VirtualMachineCondition{Type: v1alpha1.ConditionPinsLost, Status: corev1.ConditionTrue,
			Reason: v1alpha1.ReasonRevisionMissing, Message: text})
	}
	return s.withTransitionTimes(append(append(all, s.withoutEffectConditions()...), s.placeableConditions()...))
}

// reasonsWithoutGuest are reasons that condition Ready of a VM in a back-off may have and that say nothing about a guest.
var reasonsWithoutGuest = []string{v1alpha1.ReasonVMINotExists, v1alpha1.ReasonGuestNotRunning, v1alpha1.ReasonCrashLoopBackOff}

// lastGuestEnd returns how the last guest of a VM in a back-off ended; nil if that is unknown or the VM is in no back-off. The VMI is gone, so the cause is
// read from condition Ready of the VM.
func (s *state) lastGuestEnd() *condition.Cause {
	if s.vmi != nil || s.nextAction() != actionStart || s.remainingBackoff() == 0 {
		return nil
	}
	for _, ready := range conditionsOfType(s.vm, v1.VirtualMachineReady) {
		if ready.Status == corev1.ConditionFalse && !slices.Contains(reasonsWithoutGuest, ready.Reason) {
			return &condition.Cause{Reason: ready.Reason, Message: ready.Message}
		}
	}
	return nil
}

// crashLoopFailure returns the failure of a VM in a back-off: how many guests have failed, when the next guest starts, and how the last guest ended.
func (s *state) crashLoopFailure() *failure {
	text := fmt.Sprintf("guests that ended too soon, in a row: %d; the next one starts at %s", s.startFailure.ConsecutiveFailCount,
		s.startFailure.RetryAfterTimestamp.UTC().Format(time.RFC3339))
	if end := s.lastGuestEnd(); end != nil {
		text += fmt.Sprintf(". The last one: %s: %s", end.Reason, end.Message)
	}
	return &failure{v1alpha1.ReasonCrashLoopBackOff, text}
}

// conditionsOfType returns the VM's conditions of one type.
func conditionsOfType(vm *v1.VirtualMachine, of v1.VirtualMachineConditionType) []v1.VirtualMachineCondition {
	return slices.DeleteFunc(slices.Clone(vm.Status.Conditions), func(c v1.VirtualMachineCondition) bool { return c.Type != of })
}

// withTransitionTimes sets lastTransitionTime of the conditions: a condition whose status has not changed keeps its time, another one gets the current time,
// truncated to seconds as the API stores it. It appends the stored conditions of types that this controller does not own.
func (s *state) withTransitionTimes(all []v1.VirtualMachineCondition) []v1.VirtualMachineCondition {
	for i := range all {
		all[i].LastTransitionTime = metav1.NewTime(s.now.Truncate(time.Second))
		for _, old := range s.vm.Status.Conditions {
			if old.Type == all[i].Type && old.Status == all[i].Status {
				all[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	for _, old := range s.vm.Status.Conditions {
		if !slices.Contains(ownConditions, old.Type) {
			all = append(all, old)
		}
	}
	return all
}
