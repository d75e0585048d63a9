package startcheck

import (
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// findGuest finds whether the guest executes. A guest agent that does not answer, a readiness probe and a migration are notes.
func findGuest(o Objects) finding {
	vmi := o.VMI.Object
	f := finding{state: Done, object: object{"VirtualMachineInstance", o.Name}}
	switch {
	case vmi == nil:
		return finding{state: Unknown, detail: o.VMI.Denied}
	case vmi.Status.Phase != v1.Running: // a step before this one is not known
		return finding{state: NotReached}
	}
	f.notes = o.notesOfGuest()
	if vmi.Status.NodeName != "" {
		f.detail = "on node " + quoteName(vmi.Status.NodeName)
	}
	paused := o.conditionOfVMI(v1.VirtualMachineInstancePaused)
	switch {
	case paused == nil || paused.Status != corev1.ConditionTrue:
	case slices.Contains(faultyPauses, paused.Reason):
		return f.withState(Failed, paused.Reason, paused.Message)
	case paused.Reason == v1alpha1.ReasonPausedByUser:
		f.notes = append(f.notes, fmt.Sprintf("the guest is paused, as a user requested: 'kubectl kiln unpause %s -n %s'", oneLine(o.Name), oneLine(o.Namespace)))
	default:
		f.notes = append(f.notes, "the guest is paused: "+oneLine(paused.Reason+": "+paused.Message))
	}
	return f
}

// faultyPauses are the reasons of condition Paused that mean a fault.
var faultyPauses = []string{v1alpha1.ReasonPausedIOError, v1alpha1.ReasonPausedByWatchdog, v1alpha1.ReasonPausedCrashed,
	v1alpha1.ReasonPausedMigrationFailed}

// notesOfGuest returns notes about a guest that runs.
func (o Objects) notesOfGuest() (notes []string) {
	vmi := o.VMI.Object
	if c := o.conditionOfVMI(v1.VirtualMachineInstanceAgentConnected); c == nil || c.Status != corev1.ConditionTrue {
		notes = append(notes, "no guest agent is connected")
	}
	if c := o.falseCondition(v1.VirtualMachineInstanceReady); c != nil {
		notes = append(notes, "the guest is not ready: "+oneLine(c.Reason+": "+c.Message))
	}
	if state := vmi.Status.MigrationState; state != nil && !state.Completed && !state.Failed {
		notes = append(notes, "the guest is being migrated to node "+quoteName(state.TargetNode))
	}
	for _, of := range []v1.VirtualMachineInstanceConditionType{v1.VirtualMachineInstanceVCPUChange, v1.VirtualMachineInstanceMemoryChange,
		v1alpha1.ConditionHardwareChange} {
		if c := o.conditionOfVMI(of); c != nil && c.Status == corev1.ConditionTrue {
			notes = append(notes, "a change has not reached the guest ("+string(of)+"): "+oneLine(c.Reason+": "+c.Message))
		}
	}
	return notes
}

// podStart returns when the pod of the VMI was started; the zero time if that is not known.
func podStart(o Objects) time.Time {
	if pod := o.LauncherPod(); pod != nil && pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return time.Time{}
}
