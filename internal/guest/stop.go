package guest

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hypervisor"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// askInterval is the time between two presses of the guest's power button: a guest that boots ignores the first ones.
	askInterval = time.Second
	// graceInterval is the time between two reads of the grace period of a guest that is powering off.
	graceInterval = 3 * time.Second
	// destroyLimit bounds the attempts to destroy a domain. Then this process ends, and the kernel ends QEMU with the pod.
	destroyLimit = 8 * time.Second
)

// stop asks the guest to power off until its grace period is over, and then destroys the domain. It returns the last state.
func (g *Guest) stop(ctx context.Context, run run) v1alpha1.GuestDomain {
	log := ctrl.LoggerFrom(ctx)
	log.Info("the guest is asked to power off", "within", run.grace.String())
	// An agent that hangs takes seconds of each question, and kubelet counts them.
	asking, done := context.WithTimeout(ctx, run.grace)
	defer done()
	go g.shorten(asking, run, done)
	for asking.Err() == nil {
		if err := g.Hypervisor.Shutdown(asking, run.owner); err != nil {
			log.Info("the guest cannot be asked to power off", "reason", err.Error())
		}
		select {
		case <-run.changed:
		case <-asking.Done():
		case <-time.After(askInterval):
		}
		if status, err := g.state(ctx, run.owner); err == nil && !status.Active() {
			return domain(status)
		}
	}
	within, cancel := context.WithTimeout(ctx, destroyLimit)
	defer cancel()
	for within.Err() == nil {
		// Done within the limit or not: a call that hangs must not keep the pod.
		done := make(chan error, 1)
		go func() { done <- g.Hypervisor.Destroy(within, run.owner) }()
		select {
		case <-within.Done():
			log.Info("the domain does not end by libvirt; it ends with the pod")
		case err := <-done:
			if err == nil {
				return domain(hypervisor.Status{State: hypervisor.Destroyed, Cause: hypervisor.Cause(condition.CauseStopped)})
			}
			log.Info("the domain cannot be destroyed yet", "reason", err.Error())
			select {
			case <-within.Done():
			case <-time.After(failureInterval / 4):
			}
		}
	}
	return domain(hypervisor.Status{State: hypervisor.Destroyed, Cause: hypervisor.Cause(condition.CauseStopped)})
}

// shorten calls done when a grace period is over that is shorter than the one of the start: 'virtctl stop --force --grace-period=0' writes it to the VMI, also
// while the guest powers off. It returns when ctx ends.
func (g *Guest) shorten(ctx context.Context, run run, done func()) {
	begin, within := time.Now(), run.grace
	for ctx.Err() == nil {
		if vmi, err := g.Channel.vmi(ctx); err == nil && vmi.UID == run.owner.UID && Grace(vmi) < within {
			within = Grace(vmi)
			ctrl.LoggerFrom(ctx).Info("the guest has less time to power off", "within", within.String())
			time.AfterFunc(time.Until(begin.Add(within)), done)
		}
		select {
		case <-ctx.Done():
		case <-time.After(graceInterval):
		}
	}
}
