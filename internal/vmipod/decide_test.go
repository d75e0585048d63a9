package vmipod

import (
	"slices"
	"testing"
)

// allFacts yields every combination of what an action depends on.
func allFacts(yield func(facts) bool) {
	fields := func(f *facts) []*bool {
		return []*bool{&f.vmiExists, &f.runsInPod, &f.vmiDeleting, &f.vmiFinal, &f.vmiPending, &f.vmiHasFinalizer, &f.vmiHadPod,
			&f.podHasNode, &f.podHasFinalizer, &f.podDeleting, &f.podEnded, &f.nodeOutOfService,
			&f.guestPodNamesPod, &f.guestPodNamesOther, &f.factsReported, &f.hardwareRecorded}
	}
	n := len(fields(&facts{}))
	for owner := ownerNone; owner <= ownerOther; owner++ {
		for bits := range 1 << n {
			s := facts{owner: owner}
			for i, field := range fields(&s) {
				*field = bits>>i&1 == 1
			}
			if !yield(s) {
				return
			}
		}
	}
}

// laws are conditions under which actions are allowed. They hold for all facts, also for those that cannot occur.
var laws = []struct {
	why     string
	actions []action
	holds   func(facts) bool
}{
	{"a VMI gets one pod in its life, and none after its end", []action{actionCreatePod},
		func(f facts) bool {
			return f.vmiExists && f.runsInPod && !f.vmiHadPod && !f.vmiFinal && !f.vmiDeleting && f.vmiHasFinalizer && f.owner == ownerNone
		}},
	{"a GuestPod is made for the recorded pod of a VMI that lives, and on its node", []action{actionCreateGuestPod, actionRecordHardware},
		func(f facts) bool {
			return f.owner == ownerVMIRecorded && f.vmiHadPod && f.podHasNode && !f.podDeleting && !f.podEnded && !f.vmiDeleting && !f.vmiFinal
		}},
	{"hardware is recorded once, after the launcher has reported", []action{actionRecordHardware},
		func(f facts) bool { return f.factsReported && !f.hardwareRecorded && f.guestPodNamesPod }},
	{"the finalizer of a pod in which a guest may run stays", []action{actionRemovePodFinalizer},
		func(f facts) bool { return f.podStopped() || f.owner == ownerVMIUnrecorded }},
	{"pods of others are not deleted", []action{actionDeletePod, actionDeleteUnrecordedPod}, func(f facts) bool { return f.podBelongsToVMI() }},
	{"the pod of a running guest is deleted only for the owner of its VMI", []action{actionDeletePod},
		func(f facts) bool { return f.vmiDeleting || f.vmiFinal }},
	{"a recorded pod is deleted only with its VMI", []action{actionDeleteUnrecordedPod}, func(f facts) bool { return f.owner == ownerVMIUnrecorded }},
	{"no VMI ends while its guest may run", []action{actionSetFinalPhase}, func(f facts) bool { return f.owner != ownerVMIRecorded || f.podStopped() }},
	{"a VMI goes after its end, and after its guest", []action{actionRemoveVMIFinalizer},
		func(f facts) bool {
			return f.vmiDeleting && f.vmiFinal && (f.owner != ownerVMIRecorded || f.podStopped() && !f.podHasFinalizer)
		}},
	{"VMIs of bare machines are not touched", []action{actionAddVMIFinalizer, actionCreatePod, actionReportNameTaken, actionDeletePod, actionDeleteUnrecordedPod,
		actionDeleteGuestPod, actionCreateGuestPod, actionRecordHardware, actionSetFinalPhase, actionRemoveVMIFinalizer},
		func(f facts) bool { return f.vmiExists && f.runsInPod }},
}

// TestDecide: whatever the controller sees, its next action breaks no law.
func TestDecide(t *testing.T) {
	seen := map[action]int{}
	for s := range allFacts {
		next := nextAction(s)
		seen[next]++
		for _, law := range laws {
			if slices.Contains(law.actions, next) && !law.holds(s) {
				t.Fatalf("%s: action %d in %+v", law.why, next, s)
			}
		}
	}
	for next := actionIgnore; next <= actionRemoveVMIFinalizer; next++ {
		if seen[next] == 0 {
			t.Errorf("no facts lead to action %d", next)
		}
	}
}

// TestDecideNext: the actions in the life of a VMI.
func TestDecideNext(t *testing.T) {
	vmi := facts{vmiExists: true, runsInPod: true, vmiPending: true, vmiHasFinalizer: true}
	change := func(from facts, do func(*facts)) facts { do(&from); return from }
	placed := change(vmi, func(f *facts) {
		f.vmiPending, f.vmiHadPod, f.owner, f.podHasFinalizer = false, true, ownerVMIRecorded, true
	})
	running := change(placed, func(f *facts) {
		f.podHasNode, f.guestPodNamesPod, f.factsReported, f.hardwareRecorded = true, true, true, true
	})
	for _, c := range []struct {
		why  string
		s    facts
		want action
	}{
		{"nothing is there", facts{}, actionIgnore},
		{"a VMI without a phase", change(vmi, func(f *facts) { f.vmiPending = false }), actionIgnore},
		{"a VMI without a finalizer", change(vmi, func(f *facts) { f.vmiHasFinalizer = false }), actionAddVMIFinalizer},
		{"a new VMI", vmi, actionCreatePod},
		{"a pod from a crash before the status was written", change(vmi, func(f *facts) { f.owner, f.podHasFinalizer = ownerVMIUnrecorded, true }),
			actionDeleteUnrecordedPod},
		{"it is deleted", change(vmi, func(f *facts) { f.owner, f.podHasFinalizer, f.podDeleting = ownerVMIUnrecorded, true, true }), actionRemovePodFinalizer},
		{"it goes", change(vmi, func(f *facts) { f.owner, f.podDeleting = ownerVMIUnrecorded, true }), actionWait},
		{"the pod of a predecessor runs", change(vmi, func(f *facts) {
			f.owner, f.podHasFinalizer, f.podDeleting, f.podHasNode = ownerPreviousVMI, true, true, true
		}),
			actionWait},
		{"it has ended", change(vmi, func(f *facts) {
			f.owner, f.podHasFinalizer, f.podDeleting, f.podHasNode, f.podEnded = ownerPreviousVMI, true, true, true, true
		}), actionRemovePodFinalizer},
		{"somebody else's pod", change(vmi, func(f *facts) { f.owner = ownerOther }), actionReportNameTaken},
		{"no node yet", placed, actionWait},
		{"a node", change(placed, func(f *facts) { f.podHasNode = true }), actionCreateGuestPod},
		{"the GuestPod of a predecessor", change(placed, func(f *facts) { f.podHasNode, f.guestPodNamesOther = true, true }), actionDeleteGuestPod},
		{"no facts yet", change(placed, func(f *facts) { f.podHasNode, f.guestPodNamesPod = true, true }), actionWait},
		{"facts", change(placed, func(f *facts) { f.podHasNode, f.guestPodNamesPod, f.factsReported = true, true, true }), actionRecordHardware},
		{"the guest runs", running, actionWait},
		{"its pod is deleted with force", change(running, func(f *facts) { f.podDeleting = true }), actionWait},
		{"and its node is off", change(running, func(f *facts) { f.podDeleting, f.nodeOutOfService = true, true }), actionSetFinalPhase},
		{"the node is off, and the pod is not deleted", change(running, func(f *facts) { f.nodeOutOfService = true }), actionWait},
		{"the pod has ended", change(running, func(f *facts) { f.podEnded = true }), actionSetFinalPhase},
		{"and its VMI has its phase", change(running, func(f *facts) { f.podEnded, f.vmiFinal = true, true }), actionRemovePodFinalizer},
		{"and the finalizer is off", change(running, func(f *facts) { f.podEnded, f.vmiFinal, f.podHasFinalizer = true, true, false }), actionIgnore},
		{"the pod is gone", change(running, func(f *facts) { f.owner = ownerNone }), actionSetFinalPhase},
		{"the VMI is deleted", change(running, func(f *facts) { f.vmiDeleting = true }), actionDeletePod},
		{"the guest powers off", change(running, func(f *facts) { f.vmiDeleting, f.podDeleting = true, true }), actionWait},
		{"its pod has ended", change(running, func(f *facts) { f.vmiDeleting, f.podDeleting, f.podEnded = true, true, true }), actionSetFinalPhase},
		{"a VMI that is gone: its pod runs", facts{owner: ownerPreviousVMI, podHasFinalizer: true, podHasNode: true, podDeleting: true}, actionIgnore},
		{"and has ended", facts{owner: ownerPreviousVMI, podHasFinalizer: true, podHasNode: true, podDeleting: true, podEnded: true}, actionRemovePodFinalizer},
		{"a VMI of a bare machine", change(vmi, func(f *facts) { f.runsInPod, f.vmiDeleting = false, true }), actionIgnore},
	} {
		if got := nextAction(c.s); got != c.want {
			t.Errorf("%s: action %d, want %d", c.why, got, c.want)
		}
	}
}
