package lifecycle

import (
	"context"

	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// status.stateChangeRequests of a VM asks for its start or stop, as in KubeVirt; a restart is a stop followed by a start. Only the first request counts. The
// controller removes requests that are met or can never be met.

// firstRequest returns the first request; an empty one if there is none.
func (s *state) firstRequest() (first v1.VirtualMachineStateChangeRequest) {
	if requests := s.vm.Status.StateChangeRequests; len(requests) > 0 {
		first = requests[0]
	}
	return first
}

// startRequested reports whether the first request asks for a start.
func (s *state) startRequested() bool { return s.firstRequest().Action == v1.StartRequest }

// pauseRequested reports whether the first request asks for a start with a paused guest.
func (s *state) pauseRequested() bool { return s.startRequested() && asksForPause(s.firstRequest()) }

// stopRequested reports whether the first request asks to stop the current VMI.
func (s *state) stopRequested() bool {
	return s.firstRequest().Action == v1.StopRequest && s.isUnmet(s.firstRequest())
}

func asksForPause(request v1.VirtualMachineStateChangeRequest) bool {
	return request.Data[v1.StartRequestDataPausedKey] == v1.StartRequestDataPausedTrue
}

// isUnmet reports whether a request is still to be met. A stop with another UID was meant for an earlier VMI. A start of a Halted VM that is not a paused
// start was meant for an earlier run strategy: if it stayed, it would later start a VM whose owner had halted it, for example to end a back-off.
func (s *state) isUnmet(request v1.VirtualMachineStateChangeRequest) bool {
	switch {
	case !s.acceptsRequests():
		return false
	case request.Action == v1.StopRequest:
		return s.vmi != nil && ptr.Deref(request.UID, "") == s.vmi.UID
	case request.Action == v1.StartRequest:
		return !s.hasLiveVMI() && (s.strategy != v1.RunStrategyHalted || asksForPause(request))
	}
	return false
}

// nextRequests returns the next value of status.stateChangeRequests: the current list without the leading requests that are met. An edit with annotation
// kilnvm.io/rollout adds a restart. With RerunOnFailure, a failed VMI adds a request to start: nothing else distinguishes a VM that is to be run again from
// one that was stopped.
func (s *state) nextRequests() []v1.VirtualMachineStateChangeRequest {
	requests := s.vm.Status.StateChangeRequests
	if len(requests) == 0 && s.strategy == v1.RunStrategyRerunOnFailure && s.needsReplacement() {
		return []v1.VirtualMachineStateChangeRequest{{Action: v1.StartRequest}}
	}
	for len(requests) > 0 && !s.isUnmet(requests[0]) {
		requests = requests[1:]
	}
	if len(requests) == 0 && s.needsRolloutRestart() {
		return s.restartRequests()
	}
	return requests
}

// acceptsRequests reports whether the run strategy follows requests. A VM with Once is started only once, and WaitAsReceiver is not supported.
func (s *state) acceptsRequests() bool {
	return s.strategy != v1.RunStrategyOnce && s.strategy != v1.RunStrategyWaitAsReceiver
}

// hasLiveVMI reports whether the VMI runs or is about to run.
func (s *state) hasLiveVMI() bool {
	return s.vmi != nil && s.vmi.DeletionTimestamp == nil && !s.vmi.IsFinal()
}

// startOutstanding reports whether status.runStrategy must keep the previous run strategy, because wantsVMI compares with it later: the VM is to start and has
// not started, its VMI is still being deleted for the previous run strategy, or the VM is being restored.
func (s *state) startOutstanding() bool {
	return s.nextAction() == actionStart || s.vm.Status.RestoreInProgress != nil ||
		s.strategy == v1.RunStrategyRerunOnFailure && s.vmi != nil && s.vmi.DeletionTimestamp != nil
}

// endRecorded reports whether the status contains what must outlive a VMI that is to be replaced: the count of its end and, with RerunOnFailure, the request
// to start another one. If this process dies after it has deleted the VMI, nothing else remembers them.
func (s *state) endRecorded() bool {
	if !s.needsReplacement() || s.stopRequested() {
		return true
	}
	if s.startFailure != nil && !s.endCounted() && !s.endedFromOutside() {
		return false
	}
	return s.strategy != v1.RunStrategyRerunOnFailure || s.startRequested()
}

// setRunning sets the run strategy of a halted VM to Always, as KubeVirt does for 'virtctl start --paused'. Only the request to start says that the guest is
// to be paused, so it must be in the status before the VMI is created.
func (c *Controller) setRunning(ctx context.Context, s *state) error {
	running := s.vm.DeepCopy()
	if running.Spec.RunStrategy != nil {
		running.Spec.RunStrategy = ptr.To(v1.RunStrategyAlways)
	} else {
		running.Spec.Running = ptr.To(true) //nolint:staticcheck // the owner uses the deprecated field
	}
	return objects.Patch(ctx, c.Client, running, s.vm)
}
