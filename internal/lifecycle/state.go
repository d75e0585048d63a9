package lifecycle

import (
	"time"

	v1 "kubevirt.io/api/core/v1"
)

// state is one VM as it was found, and what became of it in this step.
type state struct {
	vm *v1.VirtualMachine
	// vmi is the guest, nil if there is none. A VMI of the name that the VM does not own is not its guest.
	vmi *v1.VirtualMachineInstance
	// taken says that the name is used by a VMI that the VM does not own.
	taken    bool
	strategy v1.VirtualMachineRunStrategy
	now      time.Time

	// trouble is what keeps the VM from what it wants; nil if nothing does.
	trouble *trouble
	// again is when to look again without being told, 0 if never.
	again time.Duration
	// retry is an error that is worth trying again soon.
	retry error
}

// trouble is told in the VM's Failure condition and in an event.
type trouble struct{ reason, message string }

// Bounds of the time after which a VM that cannot start is looked at again. What it waits for is watched where it can be.
const (
	firstLook = 10 * time.Second
	lastLook  = time.Minute
)

// blocked tells why the VM cannot start. What is missing may come from elsewhere: it is looked for again after as long as it has been
// missing.
func (s *state) blocked(reason, message string) {
	s.trouble = &trouble{reason, message}
	again := firstLook
	for _, c := range s.vm.Status.Conditions {
		if c.Type == v1.VirtualMachineFailure && c.Reason == reason {
			again = max(again, s.now.Sub(c.LastTransitionTime.Time))
		}
	}
	s.wait(min(again, lastLook))
}

// wait asks to be called again after d, or sooner if something else wants that.
func (s *state) wait(d time.Duration) {
	if s.again == 0 || d < s.again {
		s.again = d
	}
}

func observe(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, now time.Time) state {
	s := state{vm: vm, now: now}
	// The error is "running and runStrategy are both set", which admission refuses.
	s.strategy, _ = vm.RunStrategy()
	switch {
	case vmi == nil:
	case owns(vm, vmi):
		s.vmi = vmi
	default:
		s.taken = true
	}
	return s
}

// step is what a run strategy asks for.
type step int

const (
	stay step = iota
	start
	stop
)

// next decides what is to be done about the guest.
//
//	Halted          none
//	Always          one, whatever became of the last
//	RerunOnFailure  one, until it succeeds
//	Once            one, whatever becomes of it
//
// Manual and WaitAsReceiver leave it to requests to start and stop.
func (s *state) next() step {
	if s.vmi != nil && s.vmi.DeletionTimestamp != nil {
		return stay
	}
	switch s.strategy {
	case v1.RunStrategyHalted:
		if s.vmi != nil {
			return stop
		}
		return stay
	case v1.RunStrategyAlways, v1.RunStrategyRerunOnFailure, v1.RunStrategyOnce:
	default:
		return stay
	}
	if s.vmi == nil {
		return start
	}
	if s.runsAgain() {
		return stop // and start another when it is gone
	}
	return stay
}

// runsAgain tells whether the guest has ended by itself and another one takes its place.
func (s *state) runsAgain() bool {
	if s.vmi == nil || s.vmi.DeletionTimestamp != nil {
		return false
	}
	switch s.strategy {
	case v1.RunStrategyAlways:
		return s.vmi.IsFinal()
	case v1.RunStrategyRerunOnFailure:
		return s.vmi.Status.Phase == v1.Failed
	}
	return false
}
