package startcheck

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

const (
	reasonHalted       = "halted"
	reasonNotStarted   = "not-started"
	reasonPoweredOff   = "powered-off"
	reasonEnded        = "ended"
	reasonStopping     = "stopping"
	reasonRestoring    = "restoring"
	reasonReceiver     = "receiver"
	reasonDeleted      = "deleted"
	reasonDeletionHang = "deletion-hangs"
)

// findRequest finds whether the run strategy and the requests of a VM ask for a guest. KubeVirt and Kiln read them in the same way.
func findRequest(o Objects) finding {
	if o.VM.Object == nil {
		if o.VMI.Object != nil {
			return finding{state: Done, detail: "the VirtualMachineInstance exists; " + o.VM.Denied}
		}
		return finding{state: Unknown, detail: o.VM.Denied}
	}
	vm, vmi := o.VM.Object, o.VMI.Object
	f := finding{state: Done, object: object{"VirtualMachine", o.Name}, notes: o.pendingEdits()}
	strategy, err := vm.RunStrategy()
	f.detail = "runStrategy " + string(strategy)
	switch {
	case vm.DeletionTimestamp != nil:
		return f.whileDeleting(o)
	case err != nil:
		return f.withState(Failed, "runStrategy", err.Error())
	case vmi == nil && vm.Status.RestoreInProgress != nil:
		return f.withState(Waiting, reasonRestoring, "it is being restored by VirtualMachineRestore "+quoteName(*vm.Status.RestoreInProgress))
	case o.VMI.Denied != "" && (strategy == v1.RunStrategyManual || strategy == v1.RunStrategyRerunOnFailure) && !startRequested(vm):
		return finding{state: Unknown, detail: f.detail + "; " + o.VMI.Denied, notes: f.notes}
	case vmi != nil && vmi.DeletionTimestamp != nil, vmi != nil && !vmi.IsFinal() && (strategy == v1.RunStrategyHalted || stopRequested(vm, vmi)):
		return f.whileStopping(o, strategy)
	case vmi != nil && vmi.IsFinal():
		return f.afterEnd(o, strategy)
	case vmi == nil && o.VMI.Denied == "":
		f = f.withoutGuest(vm, strategy)
		if f.state == NotRequested {
			f.notes = append(f.notes, o.missingPlace()...)
		}
		return f
	case vmi == nil && strategy == v1.RunStrategyHalted:
		return f.withState(NotRequested, reasonHalted, "")
	}
	return f
}

// withState returns the finding with another state.
func (f finding) withState(state State, reason, message string) finding {
	f.state, f.reason, f.message = state, reason, message
	if message != "" {
		f.detail = strings.TrimPrefix(f.detail+"; "+message, "; ")
	}
	return f
}

// withoutGuest finds whether a VM without a VMI asks for one.
func (f finding) withoutGuest(vm *v1.VirtualMachine, strategy v1.VirtualMachineRunStrategy) finding {
	switch strategy {
	case v1.RunStrategyHalted:
		if !startRequested(vm) {
			return f.withState(NotRequested, reasonHalted, "")
		}
	case v1.RunStrategyManual:
		if !startRequested(vm) {
			return f.withState(NotRequested, reasonNotStarted, "nobody has asked for a start")
		}
	case v1.RunStrategyRerunOnFailure:
		// The status has the run strategy once the controller has seen it: a VM that is new, or had another strategy, is started.
		if !startRequested(vm) && vm.Status.RunStrategy == strategy {
			return f.withState(NotRequested, reasonPoweredOff, "its last guest powered off, or was stopped")
		}
	case v1.RunStrategyWaitAsReceiver:
		return f.withState(Waiting, reasonReceiver, "")
	}
	return f
}

// afterEnd finds whether a VM asks for another guest after its VMI has ended.
func (f finding) afterEnd(o Objects, strategy v1.VirtualMachineRunStrategy) finding {
	vmi := o.VMI.Object
	switch {
	case strategy == v1.RunStrategyHalted:
		return f.withState(NotRequested, reasonHalted, "")
	case startRequested(o.VM.Object) && strategy != v1.RunStrategyOnce, strategy == v1.RunStrategyAlways,
		strategy == v1.RunStrategyRerunOnFailure && vmi.Status.Phase == v1.Failed:
		return f
	case vmi.Status.Phase == v1.Succeeded:
		return f.withState(NotRequested, reasonPoweredOff, "its guest powered off")
	}
	return f.withState(Failed, reasonEnded, o.endOfGuest())
}

// endOfGuest returns how the guest of a VMI ended, in the words of its condition Ready.
func (o Objects) endOfGuest() string {
	if c := o.falseCondition(v1.VirtualMachineInstanceReady); c != nil {
		return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
	}
	return fmt.Sprintf("its phase is %s", o.VMI.Object.Status.Phase)
}

// whileStopping finds whether the guest is to be stopped for good. A guest that is replaced is a matter of step 'instance'.
func (f finding) whileStopping(o Objects, strategy v1.VirtualMachineRunStrategy) finding {
	vm, vmi := o.VM.Object, o.VMI.Object
	again := strategy == v1.RunStrategyAlways || strategy == v1.RunStrategyOnce || strategy != v1.RunStrategyHalted && restartRequested(vm)
	switch {
	case again:
		return f
	case o.deletionHangs(vmi, vmi.Spec.TerminationGracePeriodSeconds):
		f.object = object{"VirtualMachineInstance", o.Name}
		return f.withState(Failed, reasonDeletionHang, finalizersOf(vmi.Finalizers))
	}
	return f.withState(Waiting, reasonStopping, "its guest is being stopped")
}

// whileDeleting finds whether the deletion of a VM hangs.
func (f finding) whileDeleting(o Objects) finding {
	vm := o.VM.Object
	var grace *int64
	if spec := o.GuestSpec(); spec != nil {
		grace = spec.TerminationGracePeriodSeconds
	}
	if o.deletionHangs(vm, grace) {
		return f.withState(Failed, reasonDeletionHang, finalizersOf(vm.Finalizers))
	}
	return f.withState(Waiting, reasonDeleted, "it is being deleted")
}

// finalizersOf names finalizers.
func finalizersOf(names []string) string {
	if len(names) == 0 {
		return "without finalizers"
	}
	return "finalizers " + oneLine(joinTexts(names))
}

// startRequested reports whether the first request asks for a start. KubeVirt's and Kiln's controllers follow only the first.
func startRequested(vm *v1.VirtualMachine) bool {
	return len(vm.Status.StateChangeRequests) > 0 && vm.Status.StateChangeRequests[0].Action == v1.StartRequest
}

// restartRequested reports whether a start is among the requests.
func restartRequested(vm *v1.VirtualMachine) bool {
	for _, request := range vm.Status.StateChangeRequests {
		if request.Action == v1.StartRequest {
			return true
		}
	}
	return false
}

// stopRequested reports whether the first request asks to stop this VMI.
func stopRequested(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) bool {
	requests := vm.Status.StateChangeRequests
	return len(requests) > 0 && requests[0].Action == v1.StopRequest && ptr.Deref(requests[0].UID, "") == vmi.UID
}

// pendingEdits returns a note about edits that wait for a restart.
func (o Objects) pendingEdits() []string {
	if c := o.conditionOfVM(v1.VirtualMachineRestartRequired); c != nil && c.Status == "True" {
		return []string{"an edit waits for a restart: " + oneLine(c.Message)}
	}
	return nil
}

// notPlaceable returns condition Placeable if Kiln's controller says by it that the cluster could not run the VM; nil otherwise. The condition of a VM whose
// last edit the controller has not seen is about an earlier spec.
func (o Objects) notPlaceable() *v1.VirtualMachineCondition {
	c := o.conditionOfVM(v1alpha1.ConditionPlaceable)
	if c == nil || c.Status != "False" || o.VM.Object.Status.ObservedGeneration != o.VM.Object.Generation {
		return nil
	}
	return c
}

// missingPlace returns a note about a VM that nobody has started and that the cluster could not run. A VM with a VMI has later evidence.
func (o Objects) missingPlace() []string {
	c := o.notPlaceable()
	if c == nil {
		return nil
	}
	return []string{"a start would not lead to a guest now: " + oneLine(c.Message)}
}
