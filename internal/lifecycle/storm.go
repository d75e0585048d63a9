package lifecycle

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The first status of a VM that does not run reports that it is stopped. It costs the API server as much as the create before it. When many VMs are
// created at once, creates come first: these statuses wait until no more of them arrive, and maxStatusDelay at most.

const (
	// statusesPerSecond and statusBurst bound the first statuses that are written at once, storm or not.
	statusesPerSecond = 2
	statusBurst       = 10
	// stormEnd is the time without a status that had to wait after which a storm has ended.
	stormEnd = 2 * time.Second
	// lookAgain is the time after which a VM that waits is looked at again.
	lookAgain = 5 * time.Second
	// maxStatusDelay is the longest time that a status waits.
	maxStatusDelay = 30 * time.Second
)

// storm delays first statuses. The zero value is ready to use.
type storm struct {
	mu     sync.Mutex
	atOnce *rate.Limiter
	// delayed has the time at which each delayed status is written even if the storm goes on.
	delayed map[types.NamespacedName]time.Time
	// last is the time at which the last status was delayed.
	last time.Time
}

// delay returns the time after which a VM is to be reconciled again because its first status has to wait; 0 for a status that is written now. Work that
// a VM asks for meanwhile is done without delay: its events reconcile it as always.
func (s *storm) delay(of *state) time.Duration {
	key := client.ObjectKeyFromObject(of.vm)
	if !of.firstOfStopped() {
		s.forget(key)
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.atOnce == nil {
		s.atOnce, s.delayed = rate.NewLimiter(statusesPerSecond, statusBurst), map[types.NamespacedName]time.Time{}
	}
	until, waits := s.delayed[key]
	switch {
	case !waits && s.atOnce.AllowN(of.now, 1):
		return 0
	case !waits:
		s.last, s.delayed[key] = of.now, of.now.Add(maxStatusDelay)
		return lookAgain
	case of.now.Before(until) && of.now.Sub(s.last) < stormEnd:
		return min(lookAgain, until.Sub(of.now))
	}
	return 0 // its entry goes when the status is seen, so that a write that fails does not wait again
}

// forget drops the entry of a VM that has a status, or that does not exist.
func (s *storm) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.delayed, key)
}

// firstOfStopped reports whether the status that is due is the first of a VM, and reports nothing but that it is stopped.
func (s *state) firstOfStopped() bool {
	return s.vm.Status.PrintableStatus == "" && s.vm.DeletionTimestamp == nil && s.vmi == nil && !s.nameTaken && s.nextAction() == none &&
		s.failure == nil && s.retryable == nil
}
