package guest

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Live reads and changes the hardware of a domain that runs. hypervisor.Libvirt implements it; tests use a fake.
type Live interface {
	// WatchHardware calls observe when the hardware may have changed, until the context ends.
	WatchHardware(ctx context.Context, observe func())
	// Hardware returns the hardware that libvirt runs. Change makes one change to it.
	Hardware(ctx context.Context, owner hypervisor.Owner) (hypervisor.Hardware, error)
	Change(ctx context.Context, guest hypervisor.Guest, change hypervisor.Change) error
	// RunningCPU returns the CPU that libvirt runs; nil if libvirt has no model for it, or the domain is not active.
	RunningCPU(ctx context.Context, owner hypervisor.Owner) (*v1alpha1.ReportedCPU, error)
}

// followHardware reports the hardware that libvirt runs, and changes it to spec.live of the GuestPod, until ctx ends. Each report is read from libvirt and
// never assumed from requests. followHardware runs in its own goroutine, because a guest that hangs must delay neither reports of its state nor a stop.
func (g *Guest) followHardware(ctx context.Context, run startedGuest) {
	touched := make(chan struct{}, 1)
	go g.Live.WatchHardware(ctx, func() { WakeReceiver(touched) })
	asked, cpu := newChangeRequests(), &runningCPU{}
	for ctx.Err() == nil {
		wanted, changed := g.Channel.requestedHardware()
		wait := g.reconcileHardware(ctx, run, hardwareRequest{wanted, asked, cpu})
		for again, due := false, time.After(wait); !again; {
			select {
			case <-ctx.Done():
				again = true
			case <-touched:
				again = true
			case <-due:
				again = true
			case <-changed: // mostly by this process's own reports
				var now *v1alpha1.LiveHardware
				now, changed = g.Channel.requestedHardware()
				again = !equality.Semantic.DeepEqual(now, wanted)
			}
		}
	}
}

// requestedHardware returns spec.live of the GuestPod; nil if it is not set. The channel is closed when the GuestPod changes.
func (c *Channel) requestedHardware() (*v1alpha1.LiveHardware, <-chan struct{}) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.pod == nil || c.pod.Spec.Live == nil {
		return nil, c.podChanged
	}
	return &c.pod.Spec.Live.LiveHardware, c.podChanged
}

// hardwareRequest contains the wanted hardware, and the requests made to libvirt for it.
type hardwareRequest struct {
	wanted   *v1alpha1.LiveHardware
	requests changeRequests
	cpu      *runningCPU
}

// runningCPU is the CPU that libvirt runs. It is read once, because it does not change.
type runningCPU struct {
	read bool
	cpu  *v1alpha1.ReportedCPU
}

// readRunningCPU returns the CPU that libvirt runs, if the controller verifies it: if the guest was started with a CPU that libvirt may change at the start.
func (g *Guest) readRunningCPU(ctx context.Context, run startedGuest, known *runningCPU) *v1alpha1.ReportedCPU {
	if known.read || !render.VerifiesCPU(run.frontend) {
		return known.cpu
	}
	cpu, err := g.Live.RunningCPU(ctx, run.domain.Owner)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the CPU of the domain cannot be read", "reason", err.Error())
		return nil // the next report has it
	}
	known.read, known.cpu = true, cpu
	return cpu
}

// reconcileHardware reads the hardware that libvirt runs, reports it, and makes the changes that are due. It returns the time until the next call.
func (g *Guest) reconcileHardware(ctx context.Context, run startedGuest, a hardwareRequest) time.Duration {
	now, err := g.readHardware(ctx, run)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the hardware of the domain cannot be read", "reason", err.Error())
		return failureInterval
	}
	if now == nil {
		return resyncInterval // the domain has ended, or is about to start
	}
	var open []pendingChange
	if a.wanted != nil {
		open = pendingChanges(run.frontend, *now, *a.wanted)
	}
	a.requests.forgetCompleted(open)
	cpu := g.readRunningCPU(ctx, run, a.cpu)
	g.reportHardware(ctx, v1alpha1.ReportedHardware{LiveHardware: *now, Hindrance: a.requests.hindranceText(open), CPU: cpu})
	wait, acted := resyncInterval, false
	for _, need := range open {
		left := a.requests.timeUntilDue(need.name, time.Now())
		if left <= 0 {
			ctrl.LoggerFrom(ctx).Info("the running guest is changed", "change", need.name)
			err := errNeedsRestart
			if need.change != nil {
				err = g.Live.Change(ctx, run.domain, *need.change)
			}
			left, acted = a.requests.recordAttempt(need.name, err, time.Now()), true
		}
		wait = min(wait, left)
	}
	if acted {
		return min(wait, settleInterval)
	}
	return wait
}

// settleInterval is the time from a change until its result is read, if no event comes before.
const settleInterval = 200 * time.Millisecond

// readHardware returns the hardware that libvirt runs; nil if the domain is not active.
func (g *Guest) readHardware(ctx context.Context, run startedGuest) (*v1alpha1.LiveHardware, error) {
	seen, err := g.Live.Hardware(ctx, run.domain.Owner)
	if err != nil || seen.VCPUs == 0 {
		return nil, err
	}
	live := render.RunningHardware(run.frontend, render.Seen(seen))
	return &live, nil
}

// reportHardware reports the hardware that libvirt runs. It reports nothing after the end of ctx: then the guest has ended, and its last report contains no
// running hardware.
func (g *Guest) reportHardware(ctx context.Context, now v1alpha1.ReportedHardware) {
	now.Hindrance = condition.Note(now.Hindrance)
	g.Channel.Report(func(status *v1alpha1.GuestPodStatus) {
		if ctx.Err() == nil && !equality.Semantic.DeepEqual(status.Running, &now) {
			status.Running = &now
		}
	})
}
