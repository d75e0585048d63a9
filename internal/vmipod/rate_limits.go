package vmipod

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// A tenant may be the launcher, and change the GuestPod as often as he likes. Without a limit each change would cost writes of the VMI's and the VM's status,
// and events. A start needs some statuses in quick succession.
const (
	statusesPerSecond = 0.5
	statusBurst       = 12
)

// rateLimits bound how often something is done for each VMI. They are lost with the process. The zero value is ready to use.
type rateLimits struct {
	limiters sync.Map // *rate.Limiter by types.NamespacedName
}

// timeUntilNext returns 0 if it may be done now, and counts that. Otherwise it returns the time until then.
func (l *rateLimits) timeUntilNext(key types.NamespacedName, now time.Time, perSecond rate.Limit, burst int) time.Duration {
	limiter, _ := l.limiters.LoadOrStore(key, rate.NewLimiter(perSecond, burst))
	reservation := limiter.(*rate.Limiter).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

func (l *rateLimits) forgetVMI(key types.NamespacedName) { l.limiters.Delete(key) }
