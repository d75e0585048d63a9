package hypervisor

import (
	"context"
	"time"

	"github.com/digitalocean/go-libvirt"
	ctrl "sigs.k8s.io/controller-runtime"
)

// libvirt sends an event for each step in the life of a domain: defined, started, suspended, resumed, shut down, stopped, crashed, undefined.
// Whoever follows domains need not ask for their states again and again.

// Event says that the state of a domain may have changed. One without a domain says that a stream of events begins: what happened before is
// not in it, so that every domain is to be looked at.
type Event struct{ Domain string }

// retryInterval is when a stream of events that has ended is asked for again. The daemon is started anew in seconds.
const retryInterval = time.Second

// Watch calls observe for each event, one after the other, until the context ends. A stream that ends, since the daemon does, is followed by a
// new one.
func (l *Libvirt) Watch(ctx context.Context, observe func(Event)) {
	log := ctrl.LoggerFrom(ctx).WithName("events")
	for ctx.Err() == nil {
		open, events, err := l.subscribe(ctx)
		if err == nil {
			hang := context.AfterFunc(ctx, func() { open.conn.Close() })
			observe(Event{})
			for event := range events {
				l.noteSignal(event)
				observe(Event{Domain: event.Dom.Name})
			}
			hang()
			open.conn.Close()
		} else {
			log.V(1).Info("libvirt's events cannot be heard", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryInterval):
		}
	}
}

// subscribe opens a connection for a stream of events, which ends with the context or the connection.
func (l *Libvirt) subscribe(ctx context.Context) (open *line, heard <-chan libvirt.DomainEventLifecycleMsg, err error) {
	within, cancel := l.deadline(ctx, l.ask)
	defer cancel()
	if open, err = l.take(within); err != nil {
		return nil, nil, err
	}
	listen := context.AfterFunc(within, func() { open.conn.Close() })
	heard, err = open.rpc.LifecycleEvents(ctx)
	if !listen() && err == nil {
		err = context.Cause(within)
	}
	if err != nil {
		open.conn.Close()
		return nil, nil, err
	}
	return open, heard, nil
}

// noteSignal keeps in mind whose QEMU was ended by a signal. A QEMU that gets SIGTERM, as all do when their machine shuts down, ends as if its
// guest had powered off: libvirt gives both the same reason afterwards. Only its event tells them apart.
func (l *Libvirt) noteSignal(event libvirt.DomainEventLifecycleMsg) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch libvirt.DomainEventType(event.Event) {
	case libvirt.DomainEventShutdown:
		if libvirt.DomainEventShutdownDetailType(event.Detail) == libvirt.DomainEventShutdownHost {
			if l.signalled == nil {
				l.signalled = map[libvirt.UUID]bool{}
			}
			l.signalled[event.Dom.UUID] = true
		}
	case libvirt.DomainEventStarted, libvirt.DomainEventUndefined:
		delete(l.signalled, event.Dom.UUID)
	}
}

func (l *Libvirt) wasSignalled(domain libvirt.UUID) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.signalled[domain]
}
