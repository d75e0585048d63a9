package lifecycle

import (
	"context"

	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// status.stateChangeRequests of a VM asks for its start or stop, as in KubeVirt; a restart is a stop followed by a start. Only the first request counts. The
// controller removes it when it is met, or when it can never be met.

// startRequested reports whether the first request asks for a start.
func (s *state) startRequested() bool {
	requests := s.vm.Status.StateChangeRequests
	return len(requests) > 0 && requests[0].Action == v1.StartRequest
}

// pauseRequested reports whether the first request asks for a start whose guest does not run before it is unpaused.
func (s *state) pauseRequested() bool {
	return s.startRequested() && s.vm.Status.StateChangeRequests[0].Data[v1.StartRequestDataPausedKey] == v1.StartRequestDataPausedTrue
}

// stopRequested reports whether the first request asks for the stop of this VMI. A request for another UID was for a VMI before it.
func (s *state) stopRequested() bool {
	requests := s.vm.Status.StateChangeRequests
	return s.vmi != nil && len(requests) > 0 && requests[0].Action == v1.StopRequest && ptr.Deref(requests[0].UID, "") == s.vmi.UID
}

// nextRequests returns status.stateChangeRequests as it is to be written: without a first request that is met. With RerunOnFailure, a VMI that has failed
// leaves a request to start: nothing else tells a VM that is to be run again from one that was stopped.
func (s *state) nextRequests() []v1.VirtualMachineStateChangeRequest {
	requests := s.vm.Status.StateChangeRequests
	switch {
	case len(requests) == 0 && s.strategy == v1.RunStrategyRerunOnFailure && s.needsReplacement():
		return []v1.VirtualMachineStateChangeRequest{{Action: v1.StartRequest}}
	case len(requests) == 0:
		return nil
	case s.strategy == v1.RunStrategyHalted && s.startRequested() && !s.pauseRequested():
		// It is left from another run strategy, whose back-off the owner ends by Halted. Later it would start the VM against that.
		return requests[1:]
	case s.takesRequests() && (s.stopRequested() || s.startRequested() && !s.live()):
		return requests
	}
	return requests[1:]
}

// takesRequests reports whether requests mean anything with this run strategy. Once has had its start, and WaitAsReceiver is not served.
func (s *state) takesRequests() bool {
	return s.strategy != v1.RunStrategyOnce && s.strategy != v1.RunStrategyWaitAsReceiver
}

// live reports whether the VMI runs or is about to.
func (s *state) live() bool {
	return s.vmi != nil && s.vmi.DeletionTimestamp == nil && !s.vmi.IsFinal()
}

// startsLater reports whether mayStart still has to see that the run strategy is another one than before: the VM is to start and has not, or its VMI is
// being deleted because of the strategy before.
func (s *state) startsLater() bool {
	return s.nextAction() == start || s.strategy == v1.RunStrategyRerunOnFailure && s.vmi != nil && s.vmi.DeletionTimestamp != nil
}

// endRecorded reports whether the status holds what must outlive a VMI that is to be replaced: that its end is counted, and with RerunOnFailure that another
// one is to be started. A process that dies after it has deleted the VMI has no other memory.
func (s *state) endRecorded() bool {
	if !s.needsReplacement() || s.stopRequested() {
		return true
	}
	if s.startFailure != nil && !s.counted() {
		return false
	}
	return s.strategy != v1.RunStrategyRerunOnFailure || s.startRequested()
}

// unhalt sets the run strategy of a halted VM to Always, as KubeVirt does for 'virtctl start --paused': the request to start alone says that the guest is to
// be paused, and must be there before the VMI is made.
func (c *Controller) unhalt(ctx context.Context, s *state) error {
	running := s.vm.DeepCopy()
	if running.Spec.RunStrategy != nil {
		running.Spec.RunStrategy = ptr.To(v1.RunStrategyAlways)
	} else {
		running.Spec.Running = ptr.To(true) //nolint:staticcheck // the owner uses the deprecated field
	}
	return c.Client.Patch(ctx, running, client.MergeFromWithOptions(s.vm, client.MergeFromWithOptimisticLock{}))
}
