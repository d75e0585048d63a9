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
	// destroyLimit bounds the attempts to destroy a domain. Then this process ends, and the kernel ends QEMU with the pod.
	destroyLimit = 8 * time.Second
)

// stop asks the guest to power off until its grace period is over, and then destroys the domain. It returns the last state.
func (g *Guest) stop(ctx context.Context, run run) v1alpha1.GuestDomain {
	log := ctrl.LoggerFrom(ctx)
	log.Info("the guest is asked to power off", "within", run.grace.String())
	end := time.Now().Add(run.grace)
	// An agent that hangs takes seconds of each question, and kubelet counts them.
	asking, done := context.WithDeadline(ctx, end)
	defer done()
	for time.Now().Before(end) {
		if err := g.Hypervisor.Shutdown(asking, run.owner); err != nil {
			log.Info("the guest cannot be asked to power off", "reason", err.Error())
		}
		select {
		case <-run.changed:
		case <-time.After(min(askInterval, time.Until(end))):
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
