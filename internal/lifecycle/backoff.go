package lifecycle

import (
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// A VMI that ends soon after its start, whether the guest failed or shut down, is replaced after a backoff, which doubles with each such end
// in a row. A VMI that ran for stableRun is replaced at once, and so is one that was drained. status.startFailure, KubeVirt's field for this, has the count and
// the time of the next start, so that a guest that crashes waits also after a restart of the controller: flowcontrol.Backoff would forget both.
//
// Three clocks take part: the API server's (creation), the launcher's (phase transitions) and this process's. Each may be wrong, and may jump.
// So a run counts as long only when two clocks agree, and no backoff is longer than maxBackoff.

const (
	// minBackoff follows the first short run, and maxBackoff bounds the backoff, as kubelet does for containers that crash.
	minBackoff = 10 * time.Second
	maxBackoff = 5 * time.Minute
	// stableRun is how long a VMI must have run for its end not to count as a start failure.
	stableRun = 5 * time.Minute
)

// nextStartFailure returns status.startFailure, with the end of this VMI counted; nil without a short run.
func (s *state) nextStartFailure() *v1.VirtualMachineStartFailure {
	last := s.vm.Status.StartFailure
	switch {
	case s.strategy != v1.RunStrategyAlways && s.strategy != v1.RunStrategyRerunOnFailure:
		return nil
	case s.strategy == v1.RunStrategyRerunOnFailure && s.vmi != nil && s.vmi.Status.Phase == v1.Succeeded:
		return nil
	case s.needsReplacement() && s.runTime() >= stableRun:
		return nil
	case s.endedFromOutside() && last != nil:
		return s.clampRetry(last)
	case s.endedFromOutside():
		return nil
	case s.needsReplacement() && !s.counted():
		return s.countFailure(last)
	case last == nil:
		return nil
	}
	if s.vmi != nil && s.vmi.Status.Phase == v1.Running {
		ran := s.runTime()
		if ran >= stableRun {
			return nil
		}
		s.requeue(stableRun - ran) // no event says that the run has become a long one
	}
	return s.clampRetry(last)
}

// endedFromOutside reports whether the guest ran, and a drain, a deletion of its pod or the loss of its node has ended it. It is no failure of the guest:
// the next one starts at once. A guest that never ran counts all the same, so that a node that turns each pod away brings a back-off.
func (s *state) endedFromOutside() bool {
	if !s.needsReplacement() || s.phaseTime(v1.Running).IsZero() {
		return false
	}
	ready := condition.Of(s.vmi, v1.VirtualMachineInstanceReady)
	return ready != nil && condition.IsFromOutside(ready.Reason)
}

// counted reports whether the status of the VM counts the end of this VMI.
func (s *state) counted() bool {
	last := s.vm.Status.StartFailure
	return last != nil && last.LastFailedVMIUID == s.vmi.UID
}

// countFailure returns the start failures with one more, that of this VMI. A restored status may hold any number, negative ones too.
func (s *state) countFailure(last *v1.VirtualMachineStartFailure) *v1.VirtualMachineStartFailure {
	count := 1
	if last != nil {
		count = max(last.ConsecutiveFailCount, 0) + 1
	}
	until := metav1.NewTime(s.now.Add(backoffAfter(count)))
	return &v1.VirtualMachineStartFailure{ConsecutiveFailCount: count, LastFailedVMIUID: s.vmi.UID, RetryAfterTimestamp: &until}
}

// clampRetry corrects a retryAfterTimestamp that is further ahead than the backoff of its count. Either a clock was set back since it was
// written, or a backup has brought it.
func (s *state) clampRetry(last *v1.VirtualMachineStartFailure) *v1.VirtualMachineStartFailure {
	backoff := backoffAfter(last.ConsecutiveFailCount)
	if last.RetryAfterTimestamp == nil || last.RetryAfterTimestamp.Sub(s.now) <= backoff {
		return last
	}
	until := metav1.NewTime(s.now.Add(backoff))
	clamped := last.DeepCopy()
	clamped.RetryAfterTimestamp = &until
	return clamped
}

// backoffAfter returns the backoff after a number of start failures in a row.
func backoffAfter(count int) time.Duration {
	backoff := minBackoff
	for ; count > 1 && backoff < maxBackoff; count-- {
		backoff *= 2
	}
	return min(backoff, maxBackoff)
}

// runTime returns how long the VMI has run, or ran until it ended; 0 if it never ran, and never less. The launcher's clock gives the time, and
// the VMI's age by the API server's and this process's clock bounds it, so that no single clock makes a short run long.
func (s *state) runTime() time.Duration {
	started, ended := s.phaseTime(v1.Running), s.now
	if started.IsZero() {
		return 0
	}
	if s.vmi.IsFinal() {
		ended = s.phaseTime(s.vmi.Status.Phase)
	}
	return max(0, min(ended.Sub(started), s.now.Sub(s.vmi.CreationTimestamp.Time)))
}

// phaseTime returns when the VMI last entered a phase, zero if it never did.
func (s *state) phaseTime(phase v1.VirtualMachineInstancePhase) (at time.Time) {
	for _, transition := range s.vmi.Status.PhaseTransitionTimestamps {
		if transition.Phase == phase {
			at = transition.PhaseTransitionTimestamp.Time
		}
	}
	return at
}

// backoff returns how long the next start must wait, 0 if it need not.
func (s *state) backoff() time.Duration {
	if s.startFailure == nil || s.startFailure.RetryAfterTimestamp == nil {
		return 0
	}
	return max(0, s.startFailure.RetryAfterTimestamp.Sub(s.now))
}
