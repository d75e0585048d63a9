package guest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	ctrl "sigs.k8s.io/controller-runtime"
)

// resyncInterval is the time between two reads of an active domain's state without an event.
const resyncInterval = time.Minute

// followDomain reports the state of the domain until the domain ends, and stops the guest when ctx ends. It returns the last state.
func (g *Guest) followDomain(ctx context.Context, run startedGuest) v1alpha1.GuestDomain {
	log, always := ctrl.LoggerFrom(ctx), context.WithoutCancel(ctx)
	asking, end := context.WithCancel(ctx)
	defer end()
	var running atomic.Bool
	if run.hasAgent && g.Agent != nil {
		go g.watchAgent(asking, run, &running)
	}
	if g.Live != nil {
		go g.followHardware(asking, run)
	}
	for wait := resyncInterval; run.status.Active(); {
		now := guestDomain(run.status)
		running.Store(run.status.State == hypervisor.Running)
		g.Channel.Report(func(status *v1alpha1.GuestPodStatus) { status.Domain, status.Refusal = &now, nil })
		select {
		case <-ctx.Done():
			return g.stopGuest(always, run)
		case <-run.changed:
		case <-time.After(wait):
		}
		status, err := hypervisor.StartedStatus(always, g.Hypervisor, run.owner)
		if err != nil { // the daemon is restarting; an event follows when it answers again
			log.Info("the state of the domain cannot be read", "reason", err.Error())
			wait = failureInterval
			continue
		}
		run.status, wait = status, resyncInterval
	}
	return guestDomain(run.status)
}
