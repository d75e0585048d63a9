package lifecycle

import (
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// action is what a run strategy requires.
type action int

const (
	actionNone action = iota
	actionStart
	actionStop
	actionRunAlways
)

// nextAction returns the action by KubeVirt's run strategies and the first of status.stateChangeRequests:
//
//	Halted          no VMI; a request to start paused makes it Always
//	Always          a VMI, replaced when it has ended or a stop is requested
//	RerunOnFailure  a VMI, replaced when it has failed; stopped and started by request
//	Manual          stopped and started by request
//	Once            one VMI, never replaced
//
// With WaitAsReceiver, the VMI is neither created nor deleted. A VMI that is being deleted delays the next one, which has the same name.
func (s *state) nextAction() action {
	switch {
	case s.vmi == nil && s.vm.Status.RestoreInProgress != nil: // during a restore, template, record and claims may be of different versions
		return actionNone
	case s.vmi == nil && s.wantsVMI():
		return actionStart
	case s.vmi == nil && s.strategy == v1.RunStrategyHalted && s.pauseRequested():
		return actionRunAlways
	case s.vmi == nil || s.vmi.DeletionTimestamp != nil:
		return actionNone
	case s.strategy == v1.RunStrategyHalted || s.needsReplacement() || s.stopRequested() || s.acceptsRequests() && s.startRequested() && s.vmi.IsFinal():
		return actionStop // the next VMI is created when this one is gone
	}
	return actionNone
}

// wantsVMI reports whether the run strategy requires a VMI, for a VM without one. With RerunOnFailure, a VM starts when it is new, when it had another run
// strategy, and by request; otherwise its guest has succeeded or was stopped.
func (s *state) wantsVMI() bool {
	switch s.strategy {
	case v1.RunStrategyAlways, v1.RunStrategyOnce:
		return true
	case v1.RunStrategyRerunOnFailure:
		return s.startRequested() || s.vm.Status.RunStrategy != s.strategy
	case v1.RunStrategyManual:
		return s.startRequested()
	}
	return false
}

// needsReplacement reports whether the VMI has ended by itself and the run strategy requires another one.
func (s *state) needsReplacement() bool {
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

// status.stateChangeRequests of a VM asks for its start or stop, as in KubeVirt; a restart is a stop followed by a start. Only the first request counts. The
// controller removes requests that are met or can never be met.

// firstRequest returns the first request; an empty one without requests.
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
