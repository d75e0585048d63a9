package hypervisor

import (
	"context"
	"time"

	"github.com/digitalocean/go-libvirt"
	ctrl "sigs.k8s.io/controller-runtime"
)

// A QEMU that gets SIGTERM, as all do when their machine shuts down, ends as if its guest had powered off: libvirt gives both the
// same reason afterwards. Only its event tells them apart.

// retryInterval is when a stream of events that was lost is asked for again.
const retryInterval = 5 * time.Second

// Listen hears libvirt's events until the context ends, over a connection that is made anew when it is lost.
func (l *Libvirt) Listen(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("events")
	for {
		open, heard, err := l.subscribe(ctx)
		if err == nil {
			hang := context.AfterFunc(ctx, func() { open.conn.Close() })
			l.note(heard)
			hang()
			open.conn.Close()
		} else {
			log.V(1).Info("libvirt's events cannot be heard", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
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

// note keeps in mind whose QEMU was ended by a signal.
func (l *Libvirt) note(heard <-chan libvirt.DomainEventLifecycleMsg) {
	for event := range heard {
		l.mutex.Lock()
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
		l.mutex.Unlock()
	}
}

func (l *Libvirt) wasSignalled(domain libvirt.UUID) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.signalled[domain]
}
