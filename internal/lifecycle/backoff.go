package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// A guest that ends soon after its start, whether it failed or shut down, is started again after a pause. The pause doubles with each such
// end in a row. A guest that ran for long is started again at once.
//
// Three clocks take part: the API server's (creation), the launcher's (phase transitions) and this process's. Each of them may be wrong, and may
// jump. So a guest counts as long-lived only when two of them agree, and no pause is ever longer than longPause.

const (
	// firstPause follows the first short life, longPause is the longest pause.
	firstPause = 10 * time.Second
	longPause  = 5 * time.Minute
	// steady is how long a guest must run for its end to be no short life.
	steady = 5 * time.Minute
)

// failures is the VM's record of short lives in a row, this guest's included.
func (s *state) failures() *v1.VirtualMachineStartFailure {
	last := s.vm.Status.StartFailure
	switch {
	case s.strategy != v1.RunStrategyAlways && s.strategy != v1.RunStrategyRerunOnFailure:
		return nil
	case s.strategy == v1.RunStrategyRerunOnFailure && s.vmi != nil && s.vmi.Status.Phase == v1.Succeeded:
		return nil
	case s.runsAgain() && s.lived() >= steady:
		return nil
	case s.runsAgain() && !s.counted():
		return s.oneMore(last)
	case last == nil:
		return nil
	}
	if s.vmi != nil && s.vmi.Status.Phase == v1.Running {
		lived := s.lived()
		if lived >= steady {
			return nil
		}
		s.wait(steady - lived)
	}
	return s.bounded(last)
}

// counted tells whether the status of the VM holds the end of this guest.
func (s *state) counted() bool {
	last := s.vm.Status.StartFailure
	return last != nil && last.LastFailedVMIUID == s.vmi.UID
}

// oneMore counts the guest's end as a short life.
func (s *state) oneMore(last *v1.VirtualMachineStartFailure) *v1.VirtualMachineStartFailure {
	count := 1
	if last != nil {
		count = max(last.ConsecutiveFailCount, 0) + 1
	}
	until := metav1.NewTime(s.now.Add(pauseAfter(count)))
	return &v1.VirtualMachineStartFailure{ConsecutiveFailCount: count, LastFailedVMIUID: s.vmi.UID, RetryAfterTimestamp: &until}
}

// bounded takes back an end of the pause that lies further ahead than any pause is long: the clock was set back since it was
// written, or the status comes from elsewhere.
func (s *state) bounded(last *v1.VirtualMachineStartFailure) *v1.VirtualMachineStartFailure {
	pause := pauseAfter(last.ConsecutiveFailCount)
	if last.RetryAfterTimestamp == nil || last.RetryAfterTimestamp.Sub(s.now) <= pause {
		return last
	}
	until := metav1.NewTime(s.now.Add(pause))
	corrected := last.DeepCopy()
	corrected.RetryAfterTimestamp = &until
	return corrected
}

// pauseAfter is the pause after so many short lives in a row.
func pauseAfter(count int) time.Duration {
	pause := firstPause
	for ; count > 1 && pause < longPause; count-- {
		pause *= 2
	}
	return min(pause, longPause)
}

// lived is for how long the guest has run, or ran until it ended; 0 when it never ran. The launcher's clock says so, and the time since
// the guest was created bounds it: neither a launcher's clock that jumps nor one of this process that is ahead makes a short life long.
// It is never negative.
func (s *state) lived() time.Duration {
	started, ended := s.reached(v1.Running), s.now
	if started.IsZero() {
		return 0
	}
	if s.vmi.IsFinal() {
		ended = s.reached(s.vmi.Status.Phase)
	}
	return max(0, min(ended.Sub(started), s.now.Sub(s.vmi.CreationTimestamp.Time)))
}

// reached is when the guest came into a phase, the last time; zero when it never did.
func (s *state) reached(phase v1.VirtualMachineInstancePhase) (at time.Time) {
	for _, transition := range s.vmi.Status.PhaseTransitionTimestamps {
		if transition.Phase == phase {
			at = transition.PhaseTransitionTimestamp.Time
		}
	}
	return at
}

// pause is how long a start has to wait because of short lives.
func (s *state) pause() time.Duration {
	failure := s.failures()
	if failure == nil || failure.RetryAfterTimestamp == nil {
		return 0
	}
	return max(0, failure.RetryAfterTimestamp.Sub(s.now))
}
