package startcheck

import (
	"cmp"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

const (
	reasonReplaced       = "replaced"
	reasonInstanceStops  = "instance-stops"
	reasonInstanceWaits  = "instance-awaited"
	reasonInstanceSilent = "instance-silent"
)

// findInstance finds whether the VMI exists.
func findInstance(o Objects) finding {
	f := finding{state: Done, object: object{"VirtualMachineInstance", o.Name}}
	vmi := o.VMI.Object
	switch {
	case o.VMI.Denied != "":
		f.state, f.detail = Unknown, o.VMI.Denied
		return f
	case vmi == nil:
		return o.missingInstance()
	case vmi.DeletionTimestamp != nil && o.deletionHangs(vmi, vmi.Spec.TerminationGracePeriodSeconds):
		return f.withState(Failed, reasonDeletionHang, finalizersOf(vmi.Finalizers))
	case vmi.DeletionTimestamp != nil:
		return f.withState(Waiting, reasonInstanceStops, "the last guest is being stopped")
	case vmi.IsFinal() && !o.hasVM() && vmi.Status.Phase == v1.Succeeded:
		return f.withState(NotRequested, reasonPoweredOff, "its guest powered off")
	case vmi.IsFinal() && !o.hasVM():
		return f.withState(Failed, reasonEnded, o.endOfGuest())
	case vmi.IsFinal() && o.retryTime().After(o.Now):
		return o.backOff()
	case vmi.IsFinal():
		return f.withState(Waiting, reasonReplaced, o.endOfGuest())
	}
	f.detail = "phase " + cmp.Or(string(vmi.Status.Phase), string(v1.Pending))
	return f
}

// missingInstance finds why a VM that asks for a guest has no VMI.
func (o Objects) missingInstance() finding {
	f := finding{object: object{"VirtualMachine", o.Name}}
	failure := o.failureOfVM()
	switch {
	case o.VM.Object == nil:
		f.state, f.detail = Unknown, o.VM.Denied
		return f
	case o.retryTime().After(o.Now), failure != nil && failure.Reason == v1alpha1.ReasonCrashLoopBackOff:
		return o.backOff()
	case failure != nil:
		return f.withState(Failed, failure.Reason, failure.Message)
	}
	f.object = object{"VirtualMachineInstance", o.Name}
	if o.olderThan(lastWrite(o.VM.Object), patience) {
		return f.withState(Failed, reasonInstanceSilent, o.controllerName()+" has not made it, and does not say why")
	}
	return f.withState(Waiting, reasonInstanceWaits, o.controllerName()+" has not made it yet")
}

// retryTime returns when the next guest starts after guests that ended too soon; the zero time if none did.
func (o Objects) retryTime() time.Time {
	if o.VM.Object == nil || o.VM.Object.Status.StartFailure == nil || o.VM.Object.Status.StartFailure.RetryAfterTimestamp == nil {
		return time.Time{}
	}
	return o.VM.Object.Status.StartFailure.RetryAfterTimestamp.Time
}

// backOff finds how many guests ended too soon, when the next one starts, and how the last one ended.
func (o Objects) backOff() finding {
	f := finding{object: object{"VirtualMachine", o.Name}}
	text := "guests of the VM ended soon after their start"
	if failed := o.VM.Object.Status.StartFailure; failed != nil {
		text += fmt.Sprintf(", %d in a row", max(failed.ConsecutiveFailCount, 0))
		if at := o.retryTime(); !at.IsZero() {
			text += "; the next one starts at " + at.UTC().Format(time.RFC3339)
		}
	}
	switch ready := o.conditionOfVM(v1.VirtualMachineReady); {
	case o.VMI.Object != nil:
		text += "; the last one: " + o.endOfGuest()
	case ready != nil && ready.Status == "False" && ready.Reason != v1alpha1.ReasonVMINotExists && ready.Reason != v1alpha1.ReasonCrashLoopBackOff:
		text += "; the last one: " + ready.Reason + ": " + ready.Message
	}
	return f.withState(Waiting, v1alpha1.ReasonCrashLoopBackOff, text)
}
