package lifecycle

import (
	"context"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
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
	until, waits := s.delayed[key]
	switch {
	case !waits && s.limiter().AllowN(of.now, 1):
		return 0
	case !waits:
		return s.add(key, of.now)
	case of.now.Before(until) && of.now.Sub(s.last) < stormEnd:
		return min(lookAgain, until.Sub(of.now))
	}
	return 0 // its entry goes when the status is seen, so that a write that fails does not wait again
}

// delayNew returns the time after which a new VM is to be reconciled first; 0 for one that is reconciled now. In a storm, a VM that does not run and that
// admission has pinned has nothing to do but its first status.
func (s *storm) delayNew(vm *v1.VirtualMachine, now time.Time) time.Duration {
	_, pinned := vm.Annotations[v1alpha1.AnnotationPins]
	of := state{vm: vm, now: now}
	of.strategy, _ = vm.RunStrategy() // of a VM with two, which admission refuses, none
	if !pinned || of.strategy != v1.RunStrategyHalted || !of.firstOfStopped() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(vm)
	if _, waits := s.delayed[key]; waits {
		return lookAgain // another controller has the event, too
	}
	if s.limiter().TokensAt(now) >= 1 {
		return 0
	}
	return s.add(key, now)
}

// limiter returns the limiter of the statuses that are written at once. The caller holds the lock.
func (s *storm) limiter() *rate.Limiter {
	if s.atOnce == nil {
		s.atOnce, s.delayed = rate.NewLimiter(statusesPerSecond, statusBurst), map[types.NamespacedName]time.Time{}
	}
	return s.atOnce
}

// add delays the status of a VM, and returns the time after which the VM is to be reconciled. The caller holds the lock.
func (s *storm) add(key types.NamespacedName, now time.Time) time.Duration {
	s.last, s.delayed[key] = now, now.Add(maxStatusDelay)
	return lookAgain
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

// vmEvents reconciles the VM of each event. In a storm it reconciles new VMs later.
type vmEvents struct {
	handler.EnqueueRequestForObject
	storm *storm
	now   func() time.Time
}

// Create reconciles a new VM, at once or after the storm. VMs of the first list are not new.
func (e *vmEvents) Create(ctx context.Context, created event.CreateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	vm, is := created.Object.(*v1.VirtualMachine)
	if is && !created.IsInInitialList {
		if delay := e.storm.delayNew(vm, e.now()); delay > 0 {
			queue.AddAfter(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vm)}, delay)
			return
		}
	}
	e.EnqueueRequestForObject.Create(ctx, created, queue)
}
