package vmipod

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// whose is how the pod of the name relates to the VMI.
type whose int

const (
	nobodys whose = iota // there is no pod
	// recordedPod is the pod of status.activePods.
	recordedPod
	// unrecorded names the VMI as its controller, and is not in its status: from a crash between two writes, or forged. No guest runs in it, because no
	// GuestPod names it.
	unrecorded
	// predecessors names a VMI of this name that is gone, or of which another one has taken the place.
	predecessors
	// foreign is somebody else's.
	foreign
)

// situation is all that the next step depends on. It is comparable, and has finitely many values: TestDecide tries each.
type situation struct {
	// exists, and what the VMI says of itself. kilns is false for one that a launcher of a bare machine has claimed.
	exists, kilns, deleting, final, pending, finalized, hadPod bool
	pod                                                        whose
	// bound, held (by Kiln's finalizer), going and ended are of the pod, out of its node.
	bound, held, going, ended, out bool
	// told: a GuestPod names the pod. toldOther: one of the VMI's name names another pod. facts and hardware are of the GuestPod that names the pod.
	told, toldOther, facts, hardware bool
}

func (s seen) situation() situation {
	var at situation
	if vmi := s.vmi; vmi != nil {
		at.exists, at.kilns, at.deleting, at.final = true, placedByKiln(vmi), vmi.DeletionTimestamp != nil, vmi.IsFinal()
		at.pending, at.hadPod = vmi.Status.Phase == v1.Pending, len(vmi.Status.ActivePods) > 0
		at.finalized = slices.Contains(vmi.Finalizers, v1.VirtualMachineInstanceFinalizer)
	}
	if s.pod == nil {
		return at
	}
	at.pod = s.whose(s.pod)
	at.bound, at.going, at.out = s.pod.Spec.NodeName != "", s.pod.DeletionTimestamp != nil, s.nodeOut
	at.held = slices.Contains(s.pod.Finalizers, v1alpha1.FinalizerGuestPod)
	at.ended = s.pod.Status.Phase == corev1.PodSucceeded || s.pod.Status.Phase == corev1.PodFailed
	if s.guest != nil {
		at.told = s.guest.Spec.PodUID == s.pod.UID
		at.toldOther = !at.told
		at.facts, at.hardware = at.told && s.guest.Status.Facts != nil, at.told && s.guest.Spec.Hardware != nil
	}
	return at
}

func (s seen) whose(of *corev1.Pod) whose {
	switch {
	case s.vmi == nil && ofName(of, s.key.Name):
		return predecessors
	case s.vmi == nil:
		return foreign
	case recorded(s.vmi, of.UID):
		return recordedPod
	case ofVMI(of, s.vmi):
		return unrecorded
	case ofName(of, s.vmi.Name):
		return predecessors
	}
	return foreign
}

// over reports whether nothing of the pod runs any more, nor ever will: it has ended, or it is being deleted and no kubelet has it, or its node is off.
// Until then no other pod may start the guest, even if it was deleted with force.
func (s situation) over() bool { return s.ended || s.going && (!s.bound || s.out) }

// step is the one thing that is next.
type step int

const (
	// leave is for what this controller has no business with. It writes nothing.
	leave step = iota
	// wait writes the status alone.
	wait
	// finalize adds the finalizer of the VMI: without it the VMI could be gone while its guest runs.
	finalize
	// place makes the pod and what it needs, and records it.
	place
	// refuse reports that the name of the pod is taken.
	refuse
	// remove deletes the pod.
	remove
	// discard deletes a pod that is not recorded.
	discard
	// withdraw deletes the GuestPod of another pod.
	withdraw
	// introduce makes the GuestPod.
	introduce
	// equip runs stage 2 and records the hardware.
	equip
	// finish gives the VMI its final phase.
	finish
	// release removes the finalizer of the pod.
	release
	// part removes the finalizer of the VMI.
	part
)

// reports reports whether the status of the VMI follows the step. Steps that write or need no status do not.
func (s step) reports() bool {
	return !slices.Contains([]step{leave, finalize, finish, release, part}, s)
}

// rule is a step, and when it is next.
type rule struct {
	when func(situation) bool
	step step
}

// decide returns the step of the first rule that applies.
func decide(s situation) step {
	rules := whenPlaced
	switch {
	case !s.exists:
		rules = whenGone
	case !s.kilns:
		return leave
	case s.deleting:
		rules = whenDeleted
	case s.final:
		rules = whenEnded
	case !s.hadPod:
		rules = whenUnplaced
	}
	return rules[slices.IndexFunc(rules, func(r rule) bool { return r.when(s) })].step
}

func otherwise(situation) bool { return true }

// whenGone are the rules of a VMI that does not exist: the garbage collector deletes its pod.
var whenGone = []rule{
	{func(s situation) bool { return s.pod == predecessors && s.held && s.over() }, release},
	{otherwise, leave},
}

// whenDeleted are the rules of a VMI that is being deleted. It gets its final phase before it loses the finalizer: others wait for that phase.
var whenDeleted = []rule{
	{func(s situation) bool { return s.mine() && !s.going }, remove},
	{func(s situation) bool { return s.pod == unrecorded && s.held }, release},
	{func(s situation) bool { return s.pod == recordedPod && !s.over() }, wait},
	{func(s situation) bool { return !s.final }, finish},
	{func(s situation) bool { return s.pod == recordedPod && s.held }, release},
	{func(s situation) bool { return s.finalized }, part},
	{otherwise, leave},
}

// whenEnded are the rules of a VMI in a final phase. Its pod stays, with the log, until the VMI is deleted.
var whenEnded = []rule{
	{func(s situation) bool { return s.pod == unrecorded && !s.going }, discard},
	{func(s situation) bool { return s.pod == unrecorded && s.held }, release},
	{func(s situation) bool { return s.pod == recordedPod && s.held && s.over() }, release},
	{func(s situation) bool { return s.pod == recordedPod && !s.over() && !s.going }, remove}, // somebody has written the phase by hand
	{otherwise, leave},
}

// whenUnplaced are the rules of a VMI that has had no pod.
var whenUnplaced = []rule{
	{func(s situation) bool { return !s.pending }, leave}, // it gets its first phase from internal/lifecycle
	{func(s situation) bool { return !s.finalized }, finalize},
	{func(s situation) bool { return s.pod == nobodys }, place},
	{func(s situation) bool { return s.pod == unrecorded && !s.going }, discard},
	{func(s situation) bool { return s.pod == unrecorded && s.held }, release},
	{func(s situation) bool { return s.pod == predecessors && s.held && s.over() }, release},
	{func(s situation) bool { return s.pod == foreign }, refuse},
	{otherwise, wait}, // the pod of a predecessor has not ended yet, or is about to go
}

// whenPlaced are the rules of a VMI that has a pod.
var whenPlaced = []rule{
	{func(s situation) bool { return s.pod != recordedPod || s.over() }, finish},
	{func(s situation) bool { return s.going || !s.bound }, wait},
	{func(s situation) bool { return s.toldOther }, withdraw},
	{func(s situation) bool { return !s.told }, introduce},
	{func(s situation) bool { return s.facts && !s.hardware }, equip},
	{otherwise, wait},
}

// mine reports whether the pod is the VMI's, recorded or not.
func (s situation) mine() bool { return s.pod == recordedPod || s.pod == unrecorded }
