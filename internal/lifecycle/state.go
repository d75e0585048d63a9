package lifecycle

import (
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/lifecycle/datavolumes"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/placeable"
	v1 "kubevirt.io/api/core/v1"
)

// state is one VM as it was read, with the outcome of this reconcile.
type state struct {
	vm *v1.VirtualMachine
	// full reports that vm was read from the API server. A cached VM lacks what command.Slim removes: its template only contains metadata.
	full bool
	// pins are read from the annotation of vm.
	pins v1alpha1.Pins
	// vmi is the VM's VMI, nil if it has none. A VMI of the same name that the VM does not control is not its VMI.
	vmi *v1.VirtualMachineInstance
	// nameTaken reports that the VM does not control the VMI of its name.
	nameTaken bool
	strategy  v1.VirtualMachineRunStrategy
	now       time.Time
	// startFailure is the next value of status.startFailure.
	startFailure *v1.VirtualMachineStartFailure

	// pending is what a restart would change. pendingUnknown reports that the comparison failed.
	pending        pendingEdit
	pendingUnknown bool

	// withoutEffect is the message of condition FieldsWithoutEffect, empty for none; nil if this reconcile has not looked, so that the condition stays.
	withoutEffect *string

	// placeable is the content of condition Placeable. If it is nil, keepsPlaceable reports that the condition stays.
	placeable      *placeable.Verdict
	keepsPlaceable bool

	// failure is the VM's Failure condition, nil if nothing keeps the VM from its run strategy.
	failure *failure
	// awaitedVolume is the worst of the DataVolumes that keep the VM from its start, nil if no DataVolume does.
	awaitedVolume *datavolumes.Verdict
	// awaitedWebhook is the webhook that does not answer and keeps the VM from its run strategy; empty for none.
	awaitedWebhook string
	// vmiEvents say what this reconcile has done to the VMI and to DataVolumes. They are recorded after the events that say why.
	vmiEvents []guestEvent
	// requeueAfter is the time after which the VM is reconciled again without an event, 0 if never.
	requeueAfter time.Duration
	// retryable is an error that the work queue retries with its own backoff.
	retryable error
}

// failure is reported in the VM's Failure condition and in an event.
type failure struct{ reason, message string }

// Bounds of the interval at which a VM that cannot start is reconciled without an event. Most of what it waits for is watched, but the kinds
// of Containerized Data Importer (CDI) and of snapshots are only watched if the cluster serves them.
const (
	minRecheck = 10 * time.Second
	maxRecheck = time.Minute
)

func newState(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, now time.Time) *state {
	s := &state{vm: vm, pins: pin.Read(vm), now: now}
	// The error is "running and runStrategy are both set", which admission refuses.
	s.strategy, _ = vm.RunStrategy()
	switch {
	case vmi == nil:
	case ownership.Controls(vm, vmi):
		s.vmi = vmi
	default:
		s.nameTaken = true
	}
	s.startFailure = s.nextStartFailure()
	return s
}

// setVM replaces the VM by the object that the API server returned. It reads the pins again, because admission may have changed them.
func (s *state) setVM(vm *v1.VirtualMachine) {
	s.vm, s.pins, s.full = vm, pin.Read(vm), true
}

// setFailure sets the Failure condition of a VM that cannot start until something else changes. The VM is reconciled again after the time for which the
// condition has had this reason, but not before minRecheck and not after maxRecheck.
func (s *state) setFailure(reason, message string) {
	s.failure = &failure{reason, message}
	after := minRecheck
	for _, c := range s.vm.Status.Conditions {
		if c.Type == v1.VirtualMachineFailure && c.Reason == reason {
			after = max(after, s.now.Sub(c.LastTransitionTime.Time))
		}
	}
	s.requeue(min(after, maxRecheck))
}

// requeue asks for another reconcile after d, unless one is due sooner.
func (s *state) requeue(d time.Duration) {
	if s.requeueAfter == 0 || d < s.requeueAfter {
		s.requeueAfter = d
	}
}
