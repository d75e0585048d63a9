package guest

import (
	"context"
	"math"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// shutdownInterval is the time between two presses of the guest's power button. A guest that boots ignores the first ones.
	shutdownInterval = time.Second
	// gracePeriodInterval is the time between two reads of the grace period of a guest that is powering off.
	gracePeriodInterval = 3 * time.Second
	// destroyLimit bounds the attempts to destroy a domain. Afterwards this process ends, and with the pod the kernel kills QEMU.
	destroyLimit = 8 * time.Second
)

// stopGuest asks the guest to power off until its grace period is over, and then destroys the domain. It returns the last state.
func (g *Guest) stopGuest(ctx context.Context, run startedGuest) v1alpha1.GuestDomain {
	log := ctrl.LoggerFrom(ctx)
	log.Info("the guest is asked to power off", "within", run.gracePeriod.String())
	// The grace period also bounds each shutdown request: with an agent that hangs a request takes seconds, and kubelet counts them.
	asking, done := context.WithTimeout(ctx, run.gracePeriod)
	defer done()
	go g.watchGracePeriod(asking, run, done)
	for asking.Err() == nil {
		if err := g.Hypervisor.Shutdown(asking, run.owner); err != nil {
			log.Info("the guest cannot be asked to power off", "reason", err.Error())
		}
		select {
		case <-run.changed:
		case <-asking.Done():
		case <-time.After(shutdownInterval):
		}
		if status, err := hypervisor.StartedStatus(ctx, g.Hypervisor, run.owner); err == nil && !status.Active() {
			return guestDomain(status)
		}
	}
	within, cancel := context.WithTimeout(ctx, destroyLimit)
	defer cancel()
	for within.Err() == nil {
		// Do not wait for the call longer than the limit: a call that hangs must not keep the pod.
		done := make(chan error, 1)
		go func() { done <- g.Hypervisor.Destroy(within, run.owner) }()
		select {
		case <-within.Done():
			log.Info("the domain does not end by libvirt; it ends with the pod")
		case err := <-done:
			if err == nil {
				return guestDomain(hypervisor.Status{State: hypervisor.Destroyed, Cause: hypervisor.Cause(condition.CauseStopped)})
			}
			log.Info("the domain cannot be destroyed yet", "reason", err.Error())
			select {
			case <-within.Done():
			case <-time.After(failureInterval / 4):
			}
		}
	}
	return guestDomain(hypervisor.Status{State: hypervisor.Destroyed, Cause: hypervisor.Cause(condition.CauseStopped)})
}

// watchGracePeriod reads the VMI's grace period until ctx ends. If the grace period has become shorter, it calls done when the new one is over:
// 'virtctl stop --force --grace-period=0' shortens it even while the guest powers off.
func (g *Guest) watchGracePeriod(ctx context.Context, run startedGuest, done func()) {
	begin, within := time.Now(), run.gracePeriod
	for ctx.Err() == nil {
		if vmi, err := g.Channel.readVMI(ctx); err == nil && vmi.UID == run.owner.UID && Grace(vmi) < within {
			within = Grace(vmi)
			ctrl.LoggerFrom(ctx).Info("the guest has less time to power off", "within", within.String())
			time.AfterFunc(time.Until(begin.Add(within)), done)
		}
		select {
		case <-ctx.Done():
		case <-time.After(gracePeriodInterval):
		}
	}
}

// Grace returns the grace period of a VMI: the time that its guest has to power off. It is at most 292 years, the longest time.Duration.
func Grace(vmi *v1.VirtualMachineInstance) time.Duration {
	seconds := ptr.Deref(vmi.Spec.TerminationGracePeriodSeconds, v1.DefaultGracePeriodSeconds)
	return time.Duration(min(seconds, math.MaxInt64/int64(time.Second))) * time.Second
}
