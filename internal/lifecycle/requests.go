package lifecycle

import (
	"context"

	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// status.stateChangeRequests of a VM asks for its start or stop, as in KubeVirt; a restart is a stop followed by a start. Only the first request counts. The
// controller removes those that are met, or can never be met.

// request returns the first request, an empty one if there is none.
func (s *state) request() (first v1.VirtualMachineStateChangeRequest) {
	if requests := s.vm.Status.StateChangeRequests; len(requests) > 0 {
		first = requests[0]
	}
	return first
}

// startRequested reports whether the first request asks for a start.
func (s *state) startRequested() bool { return s.request().Action == v1.StartRequest }

// pauseRequested reports whether the first request asks for a start whose guest does not run before it is unpaused.
func (s *state) pauseRequested() bool { return s.startRequested() && asksPause(s.request()) }

// stopRequested reports whether the first request asks for the stop of this VMI.
func (s *state) stopRequested() bool {
	return s.request().Action == v1.StopRequest && s.unmet(s.request())
}

func asksPause(request v1.VirtualMachineStateChangeRequest) bool {
	return request.Data[v1.StartRequestDataPausedKey] == v1.StartRequestDataPausedTrue
}

// unmet reports whether a request is still to be met. A stop of another UID was for a VMI before. A start that is not paused is left from another run
// strategy in a VM that is Halted, whose owner ends a back-off by that: later it would start the VM against that.
func (s *state) unmet(request v1.VirtualMachineStateChangeRequest) bool {
	switch {
	case !s.takesRequests():
		return false
	case request.Action == v1.StopRequest:
		return s.vmi != nil && ptr.Deref(request.UID, "") == s.vmi.UID
	case request.Action == v1.StartRequest:
		return !s.live() && (s.strategy != v1.RunStrategyHalted || asksPause(request))
	}
	return false
}

// nextRequests returns status.stateChangeRequests as it is to be written: from the first that is unmet. An edit that is to be rolled out adds a restart.
// With RerunOnFailure, a VMI that has failed leaves a request to start: nothing else tells a VM that is to be run again from one that was stopped.
func (s *state) nextRequests() []v1.VirtualMachineStateChangeRequest {
	requests := s.vm.Status.StateChangeRequests
	if len(requests) == 0 && s.strategy == v1.RunStrategyRerunOnFailure && s.needsReplacement() {
		return []v1.VirtualMachineStateChangeRequest{{Action: v1.StartRequest}}
	}
	for len(requests) > 0 && !s.unmet(requests[0]) {
		requests = requests[1:]
	}
	if len(requests) == 0 && s.rollsOut() {
		return s.restart()
	}
	return requests
}

// takesRequests reports whether requests mean anything with this run strategy. Once has had its start, and WaitAsReceiver is not served.
func (s *state) takesRequests() bool {
	return s.strategy != v1.RunStrategyOnce && s.strategy != v1.RunStrategyWaitAsReceiver
}

// live reports whether the VMI runs or is about to.
func (s *state) live() bool {
	return s.vmi != nil && s.vmi.DeletionTimestamp == nil && !s.vmi.IsFinal()
}

// startsLater reports whether mayStart still has to see that the run strategy is another one than before: the VM is to start and has not, its VMI is
// being deleted because of the strategy before, or it waits for a restore.
func (s *state) startsLater() bool {
	return s.nextAction() == start || s.vm.Status.RestoreInProgress != nil ||
		s.strategy == v1.RunStrategyRerunOnFailure && s.vmi != nil && s.vmi.DeletionTimestamp != nil
}

// endRecorded reports whether the status holds what must outlive a VMI that is to be replaced: that its end is counted, and with RerunOnFailure that another
// one is to be started. A process that dies after it has deleted the VMI has no other memory.
func (s *state) endRecorded() bool {
	if !s.needsReplacement() || s.stopRequested() {
		return true
	}
	if s.startFailure != nil && !s.counted() && !s.endedFromOutside() {
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
