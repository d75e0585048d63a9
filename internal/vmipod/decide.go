package vmipod

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	v1 "kubevirt.io/api/core/v1"
)

// podOwner says to whom the pod belongs that has the name of the VMI's pod.
type podOwner int

const (
	ownerNone podOwner = iota // there is no pod
	// ownerVMIRecorded is the VMI, and status.activePods has the pod.
	ownerVMIRecorded
	// ownerVMIUnrecorded is the VMI, and status.activePods does not have the pod: the controller died between two writes, or somebody forged the owner. No guest
	// runs in the pod, because no GuestPod names it.
	ownerVMIUnrecorded
	// ownerPreviousVMI is a VMI of this name that does not exist any more.
	ownerPreviousVMI
	// ownerOther is something else.
	ownerOther
)

// facts are all that the next action depends on. They are comparable and have finitely many values: TestDecide tries each.
type facts struct {
	vmiExists bool
	// runsInPod is false if the launcher of a bare machine has claimed the VMI.
	runsInPod                                          bool
	vmiDeleting, vmiFinal, vmiPending, vmiHasFinalizer bool
	// vmiHadPod is true once status.activePods of the VMI has a pod.
	vmiHadPod bool

	owner                                                                podOwner
	podHasNode, podHasFinalizer, podDeleting, podEnded, nodeOutOfService bool

	// guestPodNamesPod and guestPodNamesOther say which pod the GuestPod of the VMI's name names.
	guestPodNamesPod, guestPodNamesOther bool
	// factsReported and hardwareRecorded are true only if the GuestPod names the pod.
	factsReported, hardwareRecorded bool
}

// podStopped reports whether no process of the pod runs, and none will: the pod has ended, or it is being deleted and no kubelet has it, or its node is off.
// Until then no other pod may start the guest, even if the pod was deleted with force.
func (f facts) podStopped() bool {
	return f.podEnded || f.podDeleting && (!f.podHasNode || f.nodeOutOfService)
}

// podBelongsToVMI reports whether the pod is the VMI's, recorded or not.
func (f facts) podBelongsToVMI() bool {
	return f.owner == ownerVMIRecorded || f.owner == ownerVMIUnrecorded
}

// factsOf returns what the next action depends on.
func factsOf(o observed.Objects) facts {
	var at facts
	if vmi := o.VMI; vmi != nil {
		at.vmiExists, at.runsInPod, at.vmiDeleting, at.vmiFinal = true, observed.RunsInPod(vmi), vmi.DeletionTimestamp != nil, vmi.IsFinal()
		at.vmiPending, at.vmiHadPod = vmi.Status.Phase == v1.Pending, len(vmi.Status.ActivePods) > 0
		at.vmiHasFinalizer = slices.Contains(vmi.Finalizers, v1.VirtualMachineInstanceFinalizer)
	}
	if o.Pod == nil {
		return at
	}
	at.owner = ownerOf(o)
	at.podHasNode, at.podDeleting, at.nodeOutOfService = o.Pod.Spec.NodeName != "", o.Pod.DeletionTimestamp != nil, o.NodeOutOfService
	at.podHasFinalizer = slices.Contains(o.Pod.Finalizers, v1alpha1.FinalizerGuestPod)
	at.podEnded = observed.PodEnded(o.Pod)
	if guest := o.GuestPodOfPod(); guest != nil {
		at.guestPodNamesPod, at.factsReported, at.hardwareRecorded = true, guest.Status.Facts != nil, guest.Spec.Hardware != nil
	} else {
		at.guestPodNamesOther = o.GuestPod != nil
	}
	return at
}

func ownerOf(o observed.Objects) podOwner {
	switch {
	case o.VMI != nil && observed.IsRecorded(o.VMI, o.Pod.UID):
		return ownerVMIRecorded
	case o.VMI != nil && observed.IsOwnedBy(o.Pod, o.VMI):
		return ownerVMIUnrecorded
	case observed.IsOwnedByName(o.Pod, o.Key.Name):
		return ownerPreviousVMI
	}
	return ownerOther
}

// action is what the controller does next. It does one action at a time, because it may die after each.
type action int

const (
	// actionIgnore writes nothing: the VMI needs nothing from this controller.
	actionIgnore action = iota
	// actionWait writes only the status.
	actionWait
	// actionAddVMIFinalizer adds the finalizer of the VMI, without which the VMI could be gone while its guest runs.
	actionAddVMIFinalizer
	// actionCreatePod creates the pod and what the pod needs, and records the pod in the status.
	actionCreatePod
	// actionReportNameTaken reports that somebody else's pod has the name.
	actionReportNameTaken
	actionDeletePod
	actionDeleteUnrecordedPod
	// actionDeleteGuestPod deletes the GuestPod of another pod.
	actionDeleteGuestPod
	actionCreateGuestPod
	// actionRecordHardware runs stage 2 and records the hardware.
	actionRecordHardware
	actionSetFinalPhase
	actionRemovePodFinalizer
	actionRemoveVMIFinalizer
)

// followedByStatus reports whether the status of the VMI is written after the action. The other actions write it themselves, or need none.
func (a action) followedByStatus() bool {
	return !slices.Contains([]action{actionIgnore, actionAddVMIFinalizer, actionSetFinalPhase, actionRemovePodFinalizer, actionRemoveVMIFinalizer}, a)
}

// rule is an action and its condition.
type rule struct {
	when   func(facts) bool
	action action
}

// nextAction returns the action of the first rule that applies.
func nextAction(f facts) action {
	rules := rulesWithPod
	switch {
	case !f.vmiExists:
		rules = rulesWithoutVMI
	case !f.runsInPod:
		return actionIgnore
	case f.vmiDeleting:
		rules = rulesOfDeletedVMI
	case f.vmiFinal:
		rules = rulesOfFinalVMI
	case !f.vmiHadPod:
		rules = rulesWithoutPod
	}
	return rules[slices.IndexFunc(rules, func(r rule) bool { return r.when(f) })].action
}

func otherwise(facts) bool { return true }

// rulesWithoutVMI are the rules if the VMI does not exist: the garbage collector deletes its pod.
var rulesWithoutVMI = []rule{
	{func(f facts) bool { return f.owner == ownerPreviousVMI && f.podHasFinalizer && f.podStopped() }, actionRemovePodFinalizer},
	{otherwise, actionIgnore},
}

// rulesOfDeletedVMI are the rules of a VMI that is being deleted. It gets its final phase before it loses the finalizer, because others wait for that phase.
var rulesOfDeletedVMI = []rule{
	{func(f facts) bool { return f.podBelongsToVMI() && !f.podDeleting }, actionDeletePod},
	{func(f facts) bool { return f.owner == ownerVMIUnrecorded && f.podHasFinalizer }, actionRemovePodFinalizer},
	{func(f facts) bool { return f.owner == ownerVMIRecorded && !f.podStopped() }, actionWait},
	{func(f facts) bool { return !f.vmiFinal }, actionSetFinalPhase},
	{func(f facts) bool { return f.owner == ownerVMIRecorded && f.podHasFinalizer }, actionRemovePodFinalizer},
	{func(f facts) bool { return f.vmiHasFinalizer }, actionRemoveVMIFinalizer},
	{otherwise, actionIgnore},
}

// rulesOfFinalVMI are the rules of a VMI in a final phase. Its pod stays, with the log, until the VMI is deleted.
var rulesOfFinalVMI = []rule{
	{func(f facts) bool { return f.owner == ownerVMIUnrecorded && !f.podDeleting }, actionDeleteUnrecordedPod},
	{func(f facts) bool { return f.owner == ownerVMIUnrecorded && f.podHasFinalizer }, actionRemovePodFinalizer},
	{func(f facts) bool { return f.owner == ownerVMIRecorded && f.podHasFinalizer && f.podStopped() }, actionRemovePodFinalizer},
	// Somebody has written the phase by hand.
	{func(f facts) bool { return f.owner == ownerVMIRecorded && !f.podStopped() && !f.podDeleting }, actionDeletePod},
	{otherwise, actionIgnore},
}

// rulesWithoutPod are the rules of a VMI that has had no pod.
var rulesWithoutPod = []rule{
	{func(f facts) bool { return !f.vmiPending }, actionIgnore}, // internal/lifecycle writes the first phase
	{func(f facts) bool { return !f.vmiHasFinalizer }, actionAddVMIFinalizer},
	{func(f facts) bool { return f.owner == ownerNone }, actionCreatePod},
	{func(f facts) bool { return f.owner == ownerVMIUnrecorded && !f.podDeleting }, actionDeleteUnrecordedPod},
	{func(f facts) bool { return f.owner == ownerVMIUnrecorded && f.podHasFinalizer }, actionRemovePodFinalizer},
	{func(f facts) bool { return f.owner == ownerPreviousVMI && f.podHasFinalizer && f.podStopped() }, actionRemovePodFinalizer},
	{func(f facts) bool { return f.owner == ownerOther }, actionReportNameTaken},
	{otherwise, actionWait}, // the pod of a previous VMI has not ended yet, or the pod is about to be gone
}

// rulesWithPod are the rules of a VMI that has a pod.
var rulesWithPod = []rule{
	{func(f facts) bool { return f.owner != ownerVMIRecorded || f.podStopped() }, actionSetFinalPhase},
	{func(f facts) bool { return f.podDeleting || !f.podHasNode }, actionWait},
	{func(f facts) bool { return f.guestPodNamesOther }, actionDeleteGuestPod},
	{func(f facts) bool { return !f.guestPodNamesPod }, actionCreateGuestPod},
	{func(f facts) bool { return f.factsReported && !f.hardwareRecorded }, actionRecordHardware},
	{otherwise, actionWait},
}
