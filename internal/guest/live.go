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
	// Hardware reads what libvirt runs, and Change changes it.
	Hardware(ctx context.Context, owner hypervisor.Owner) (hypervisor.Hardware, error)
	Change(ctx context.Context, guest hypervisor.Guest, change hypervisor.Change) error
}

// followHardware reports what libvirt runs, and brings it to what the GuestPod asks for, until ctx ends. What it reports is read from libvirt each time,
// whatever it has asked for. It is a goroutine of its own: a guest that hangs delays neither the reports of its state nor a stop.
func (g *Guest) followHardware(ctx context.Context, run run) {
	touched := make(chan struct{}, 1)
	go g.Live.WatchHardware(ctx, func() { poke(touched) })
	asked := newRequests()
	for ctx.Err() == nil {
		wanted, changed := g.Channel.live()
		wait := g.adjust(ctx, run, adjustment{wanted, asked})
		for again, due := false, time.After(wait); !again; {
			select {
			case <-ctx.Done():
				again = true
			case <-touched:
				again = true
			case <-due:
				again = true
			case <-changed: // by a report of this process, mostly
				var now *v1alpha1.LiveHardware
				now, changed = g.Channel.live()
				again = !equality.Semantic.DeepEqual(now, wanted)
			}
		}
	}
}

// live returns what the GuestPod asks for, nil if it asks for nothing, and what is closed when the GuestPod changes.
func (c *Channel) live() (*v1alpha1.LiveHardware, <-chan struct{}) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.pod == nil || c.pod.Spec.Live == nil {
		return nil, c.seen
	}
	return &c.pod.Spec.Live.LiveHardware, c.seen
}

// adjustment is what is asked for, and what was requested of libvirt for it.
type adjustment struct {
	wanted *v1alpha1.LiveHardware
	asked  requests
}

// adjust reads what libvirt runs, reports it, and makes the changes that are due. It returns the time to the next look.
func (g *Guest) adjust(ctx context.Context, run run, a adjustment) time.Duration {
	now, err := g.readHardware(ctx, run)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the hardware of the domain cannot be read", "reason", err.Error())
		return failureInterval
	}
	if now == nil {
		return resyncInterval // the domain has ended, or is about to start
	}
	var open []need
	if a.wanted != nil {
		open = needs(run.front, *now, *a.wanted)
	}
	a.asked.keep(open)
	g.reportHardware(ctx, v1alpha1.ReportedHardware{LiveHardware: *now, Hindrance: a.asked.hindrance(open)})
	wait, acted := resyncInterval, false
	for _, need := range open {
		left := a.asked.due(need.what, time.Now())
		if left <= 0 {
			ctrl.LoggerFrom(ctx).Info("the running guest is changed", "change", need.what)
			err := errImpossible
			if need.change != nil {
				err = g.Live.Change(ctx, run.guest, *need.change)
			}
			left, acted = a.asked.note(need.what, err, time.Now()), true
		}
		wait = min(wait, left)
	}
	if acted {
		return min(wait, settleInterval)
	}
	return wait
}

// settleInterval is the time from a change to the look at what has become of it, where no event comes.
const settleInterval = 200 * time.Millisecond

// readHardware returns what libvirt runs; nil if the domain is not active.
func (g *Guest) readHardware(ctx context.Context, run run) (*v1alpha1.LiveHardware, error) {
	seen, err := g.Live.Hardware(ctx, run.guest.Owner)
	if err != nil || seen.VCPUs == 0 {
		return nil, err
	}
	live := render.Running(run.front, render.Seen(seen))
	return &live, nil
}

// reportHardware reports what libvirt runs. After the end of ctx the guest has ended, and its last report has none.
func (g *Guest) reportHardware(ctx context.Context, now v1alpha1.ReportedHardware) {
	now.Hindrance = condition.Note(now.Hindrance)
	g.Channel.Report(func(status *v1alpha1.GuestPodStatus) {
		if ctx.Err() == nil && !equality.Semantic.DeepEqual(status.Running, &now) {
			status.Running = &now
		}
	})
}
