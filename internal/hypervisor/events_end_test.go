package hypervisor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/libvirt"
)

// TestEndedWatchesLeaveTheDaemon: 4,800 streams of events end, eight at a time, and libvirtd still begins new ones. libvirtd 9.0 crashed within 600 rounds
// when a connection was closed while a deregistration was on its way.
func TestEndedWatchesLeaveTheDaemon(t *testing.T) {
	t.Parallel()
	l := connected(t, libvirt.Start(t))
	for round := range 600 {
		var watches sync.WaitGroup
		for range 4 {
			watches.Go(func() {
				watchOnce(t, func(ctx context.Context, begun func()) { l.Watch(ctx, func(Event) { begun() }) })
			})
			watches.Go(func() { watchOnce(t, l.WatchHardware) })
		}
		watches.Wait()
		if t.Failed() {
			t.Fatalf("round %d: libvirtd begins no stream of events any more", round)
		}
	}
}

// watchOnce ends a watch as soon as it has begun. One that does not begin within a minute fails the test.
func watchOnce(t *testing.T, watch func(ctx context.Context, begun func())) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch(ctx, cancel)
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Error(ctx.Err())
	}
}
