package lifecycle

import (
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// A VMI that ends soon after its start, whether the guest failed or shut down, is replaced after a back-off, which doubles with each such end
// in a row. A VMI that ran for stableRun, or that was drained, is replaced at once. KubeVirt's field status.startFailure contains the count and the time of
// the next start, so that a guest that crashes also waits after a restart of the controller: flowcontrol.Backoff would forget both.
//
// Three clocks take part: the API server's (creation), the launcher's (phase transitions) and this process's. Each may be wrong, and may jump.
// So a run only counts as long if two clocks agree, and no back-off is longer than maxBackoff.

const (
	// minBackoff follows the first short run, and maxBackoff bounds the back-off, as kubelet does for containers that crash.
	minBackoff = 10 * time.Second
	maxBackoff = 5 * time.Minute
	// stableRun is how long a VMI must have run for its end not to count as a start failure.
	stableRun = 5 * time.Minute
)

// nextStartFailure returns status.startFailure with the end of the current VMI counted; nil if no start has failed since the last stable run.
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
		return s.clampRetryTime(last)
	case s.endedFromOutside():
		return nil
	case s.needsReplacement() && !s.endCounted():
		return s.countFailure(last)
	case last == nil:
		return nil
	}
	if s.vmi != nil && s.vmi.Status.Phase == v1.Running {
		ran := s.runTime()
		if ran >= stableRun {
			return nil
		}
		s.requeue(stableRun - ran) // no event says that the run has become a stable one
	}
	return s.clampRetryTime(last)
}

// endedFromOutside reports whether the guest ran, and a drain, the deletion of its pod or the loss of its node ended it. Such an end is no failure of the
// guest: the next guest starts at once. The end of a guest that never ran is always counted, so that a node that rejects each pod leads to a back-off.
func (s *state) endedFromOutside() bool {
	if !s.needsReplacement() || s.phaseTime(v1.Running).IsZero() {
		return false
	}
	ready := condition.Of(s.vmi, v1.VirtualMachineInstanceReady)
	return ready != nil && condition.IsFromOutside(ready.Reason)
}

// endCounted reports whether the VM's status already counts the end of this VMI.
func (s *state) endCounted() bool {
	last := s.vm.Status.StartFailure
	return last != nil && last.LastFailedVMIUID == s.vmi.UID
}

// countFailure returns the start failures with the end of this VMI added. A restored status may contain any count, also a negative one.
func (s *state) countFailure(last *v1.VirtualMachineStartFailure) *v1.VirtualMachineStartFailure {
	count := 1
	if last != nil {
		count = max(last.ConsecutiveFailCount, 0) + 1
	}
	until := metav1.NewTime(s.now.Add(backoffAfter(count)))
	return &v1.VirtualMachineStartFailure{ConsecutiveFailCount: count, LastFailedVMIUID: s.vmi.UID, RetryAfterTimestamp: &until}
}

// clampRetryTime corrects a retryAfterTimestamp that is later than the back-off of its count allows. Either a clock was set back since it was written, or it
// was restored from a backup.
func (s *state) clampRetryTime(last *v1.VirtualMachineStartFailure) *v1.VirtualMachineStartFailure {
	backoff := backoffAfter(last.ConsecutiveFailCount)
	if last.RetryAfterTimestamp == nil || last.RetryAfterTimestamp.Sub(s.now) <= backoff {
		return last
	}
	until := metav1.NewTime(s.now.Add(backoff))
	clamped := last.DeepCopy()
	clamped.RetryAfterTimestamp = &until
	return clamped
}

// backoffAfter returns the back-off after the given number of start failures in a row.
func backoffAfter(count int) time.Duration {
	backoff := minBackoff
	for ; count > 1 && backoff < maxBackoff; count-- {
		backoff *= 2
	}
	return min(backoff, maxBackoff)
}

// runTime returns how long the VMI has run, or ran until it ended; 0 if it never ran, and never a negative time. Both times are the launcher's. The VMI's age,
// by the API server's and this process's clock, is the upper bound, so that no single clock makes a short run long.
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

// phaseTime returns when the VMI last entered a phase; the zero time if it never did.
func (s *state) phaseTime(phase v1.VirtualMachineInstancePhase) (at time.Time) {
	for _, transition := range s.vmi.Status.PhaseTransitionTimestamps {
		if transition.Phase == phase {
			at = transition.PhaseTransitionTimestamp.Time
		}
	}
	return at
}

// remainingBackoff returns how long the next start must wait; 0 if it can happen now.
func (s *state) remainingBackoff() time.Duration {
	if s.startFailure == nil || s.startFailure.RetryAfterTimestamp == nil {
		return 0
	}
	return max(0, s.startFailure.RetryAfterTimestamp.Sub(s.now))
}
