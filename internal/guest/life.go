package guest

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// resyncInterval is the time between two reads of an active domain's state without an event.
const resyncInterval = time.Minute

// follow reports the state of the domain until it has ended, and stops the guest when ctx ends. It returns the last state.
func (g *Guest) follow(ctx context.Context, run run) v1alpha1.GuestDomain {
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
		now := domain(run.status)
		running.Store(run.status.State == hypervisor.Running)
		g.Channel.Report(func(status *v1alpha1.GuestPodStatus) { status.Domain, status.Refusal = &now, nil })
		select {
		case <-ctx.Done():
			return g.stop(always, run)
		case <-run.changed:
		case <-time.After(wait):
		}
		status, err := g.state(always, run.owner)
		if err != nil { // the daemon is being restarted, and an event will say that it is there again
			log.Info("the state of the domain cannot be read", "reason", err.Error())
			wait = failureInterval
			continue
		}
		run.status, wait = status, resyncInterval
	}
	return domain(run.status)
}

// state returns the status of the guest's domain. A domain of its name that is another's means that the guest's is gone.
func (g *Guest) state(ctx context.Context, owner hypervisor.Owner) (hypervisor.Status, error) {
	status, err := g.Hypervisor.State(ctx, owner)
	var taken *hypervisor.TakenError
	if errors.As(err, &taken) {
		return hypervisor.Status{Cause: hypervisor.Cause{Reason: taken.Reason, Message: "the domain of this VMI is gone: " + taken.Text}}, nil
	}
	return status, err
}

// Grace returns the time that a guest has to power off. It is at most 292 years, which is what a Duration can hold.
func Grace(vmi *v1.VirtualMachineInstance) time.Duration {
	seconds := ptr.Deref(vmi.Spec.TerminationGracePeriodSeconds, v1.DefaultGracePeriodSeconds)
	return time.Duration(min(seconds, math.MaxInt64/int64(time.Second))) * time.Second
}
