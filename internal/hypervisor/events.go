package hypervisor

import (
	"context"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"
	ctrl "sigs.k8s.io/controller-runtime"
)

// libvirt sends an event for each step in the life of a domain: defined, started, suspended, resumed, shut down, stopped, crashed, undefined.

// Event reports that the state of the domain with this name may have changed. An empty name reports that a stream of events has begun: the receiver must read
// the state of every domain, because earlier changes are not in the stream.
type Event struct{ Domain string }

// retryInterval is the time between the end of a stream of events and the next attempt to open one. The daemon restarts in seconds.
const retryInterval = time.Second

// Watch calls observe for each event, one after the other, until the context ends. When the daemon ends a stream, Watch opens a new one.
func (l *Libvirt) Watch(ctx context.Context, observe func(Event)) {
	log := ctrl.LoggerFrom(ctx).WithName("events")
	for ctx.Err() == nil {
		open, events, err := l.subscribeEvents(ctx)
		if err == nil {
			stopClosing := context.AfterFunc(ctx, func() { open.conn.Close() })
			observe(Event{})
			for event := range events {
				l.recordSignal(event)
				observe(Event{Domain: event.Dom.Name})
			}
			stopClosing()
			open.conn.Close()
		} else {
			log.V(1).Info("libvirt's events cannot be received", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryInterval):
		}
	}
}

// subscribeEvents opens a connection for a stream of events, which ends with the connection. Trap: with ctx, go-libvirt would deregister the stream while Watch
// closes the connection, and libvirtd 9.0 crashes when it handles both at once. libvirtd deregisters the streams of a closed connection by itself.
func (l *Libvirt) subscribeEvents(ctx context.Context) (open *connection, received <-chan libvirt.DomainEventLifecycleMsg, err error) {
	bounded, cancel := l.withDeadline(ctx, l.queryTimeout)
	defer cancel()
	if open, err = l.acquireConnection(bounded); err != nil {
		return nil, nil, err
	}
	stopClosing := context.AfterFunc(bounded, func() { open.conn.Close() })
	received, err = open.rpc.LifecycleEvents(context.WithoutCancel(ctx))
	if !stopClosing() && err == nil {
		err = context.Cause(bounded)
	}
	if err != nil {
		open.conn.Close()
		return nil, nil, err
	}
	return open, received, nil
}

// signals are the domains whose QEMU was ended by a signal, until they start again. The state of such a domain has the same reason in libvirt as the state of
// a guest that powered off: only the events differ. signals are kept in memory, so a guest that was ended by a signal while no launcher ran counts as powered
// off.
type signals struct {
	mutex sync.Mutex
	ended map[libvirt.UUID]bool
}

// recordSignal updates the signals from an event of a domain. A machine that shuts down ends all guests by a signal.
func (s *signals) recordSignal(event libvirt.DomainEventLifecycleMsg) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch libvirt.DomainEventType(event.Event) {
	case libvirt.DomainEventShutdown:
		if libvirt.DomainEventShutdownDetailType(event.Detail) == libvirt.DomainEventShutdownHost {
			if s.ended == nil {
				s.ended = map[libvirt.UUID]bool{}
			}
			s.ended[event.Dom.UUID] = true
		}
	case libvirt.DomainEventStarted, libvirt.DomainEventUndefined:
		delete(s.ended, event.Dom.UUID)
	}
}

// wasSignalled reports whether a signal ended the QEMU of a domain. It misses signals that were sent while no stream of events was open.
func (s *signals) wasSignalled(domain libvirt.UUID) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.ended[domain]
}
