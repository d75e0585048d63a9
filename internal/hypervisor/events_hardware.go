package hypervisor

import (
	"context"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"
	ctrl "sigs.k8s.io/controller-runtime"
)

// hardwareEvents are libvirt's events about the hardware of a running domain: a device was added or removed, the guest refused to release a device, or a tray
// was opened or closed. libvirt has no events for vCPUs and links.
var hardwareEvents = []libvirt.DomainEventID{libvirt.DomainEventIDDeviceAdded, libvirt.DomainEventIDDeviceRemoved, libvirt.DomainEventIDDeviceRemovalFailed,
	libvirt.DomainEventIDTrayChange, libvirt.DomainEventIDDiskChange}

// WatchHardware calls observe when the hardware of a domain may have changed, until the context ends: at each of the hardwareEvents, and when a stream of
// events begins. Calls do not overlap.
func (l *Libvirt) WatchHardware(ctx context.Context, observe func()) {
	log := ctrl.LoggerFrom(ctx).WithName("hardware")
	for ctx.Err() == nil {
		if err := l.hardwareStream(ctx, observe); err != nil {
			log.V(1).Info("libvirt's events about devices cannot be received", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryInterval):
		}
	}
}

// hardwareStream receives events until the connection ends. The end of ctx closes the connection. Trap: go-libvirt must not get ctx, see subscribe. Another
// trap: go-libvirt blocks unless its channel is read until it is closed.
func (l *Libvirt) hardwareStream(ctx context.Context, observe func()) error {
	bounded, cancel := l.withDeadline(ctx, l.queryTimeout)
	defer cancel()
	open, err := l.acquireConnection(bounded)
	if err != nil {
		return err
	}
	defer open.conn.Close()
	stopClosing := context.AfterFunc(ctx, func() { open.conn.Close() })
	defer stopClosing()
	var readers sync.WaitGroup
	var turn sync.Mutex
	seen := func() {
		turn.Lock()
		defer turn.Unlock()
		observe()
	}
	for _, id := range hardwareEvents {
		events, subscribed := open.rpc.SubscribeEvents(context.WithoutCancel(ctx), id, nil)
		if subscribed != nil {
			err = subscribed
			open.conn.Close()
			break
		}
		readers.Go(func() {
			for range events {
				seen()
			}
		})
	}
	if err == nil {
		seen()
	}
	readers.Wait()
	return err
}
