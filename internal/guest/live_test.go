package guest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
)

// fakeLive is the running domain of growing: it does what it is asked for, but for what it refuses or ignores.
type fakeLive struct {
	mutex           sync.Mutex
	now             hypervisor.Hardware
	calls           []hypervisor.Change
	refuses, ignore map[hypervisor.ChangeKind]bool
	fails           error
	events          chan struct{}
}

func newLive() *fakeLive {
	return &fakeLive{now: hypervisor.Hardware{VCPUs: 2, MemoryKiB: 1 << 20,
		Aliases: []string{"ua-data", "ua-image", "ua-empty", "ua-init", "ua-default", "by-hand"}}, events: make(chan struct{}, 10)}
}

func (f *fakeLive) WatchHardware(ctx context.Context, observe func()) {
	for {
		select {
		case <-f.events:
			observe()
		case <-ctx.Done():
			return
		}
	}
}

func (f *fakeLive) Hardware(context.Context, hypervisor.Owner) (hypervisor.Hardware, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.now
	now.Aliases, now.Down, now.Empty = slices.Clone(now.Aliases), slices.Clone(now.Down), slices.Clone(now.Empty)
	return now, f.fails
}

func (f *fakeLive) Change(_ context.Context, _ hypervisor.Guest, change hypervisor.Change) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.calls = append(f.calls, change)
	if f.refuses[change.Kind] {
		return errors.New("the tray is locked")
	}
	if f.ignore[change.Kind] {
		return nil
	}
	gone := func(alias string) bool { return alias == change.Alias }
	switch change.Kind {
	case hypervisor.SetVCPUs:
		f.now.VCPUs = uint(change.Amount)
	case hypervisor.AddMemory:
		f.now.MemoryKiB += change.Amount
	case hypervisor.LinkDown:
		f.now.Down = append(f.now.Down, change.Alias)
	case hypervisor.LinkUp:
		f.now.Down = slices.DeleteFunc(f.now.Down, gone)
	case hypervisor.Eject:
		f.now.Empty = append(f.now.Empty, change.Alias)
	case hypervisor.Insert:
		f.now.Empty = slices.DeleteFunc(f.now.Empty, gone)
	case hypervisor.Unplug:
		f.now.Aliases = slices.DeleteFunc(f.now.Aliases, gone)
	}
	f.events <- struct{}{}
	return nil
}

// set changes the fake while its guest runs, and reports an event.
func (f *fakeLive) set(change func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change()
	f.events <- struct{}{}
}

func (f *fakeLive) did() []hypervisor.Change {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.calls)
}

// liveGuest is a guest with fakes that runs, and its running domain.
func liveGuest(t *testing.T) (*life, *fakeLive) {
	t.Helper()
	domain := newLive()
	l := live(t, serve(t, growing(t)), newHypervisor(), func(g *guest.Guest, _ *fakeMachine) { g.Live = domain })
	return l, domain
}

func is(want v1alpha1.LiveHardware) func(v1alpha1.GuestPodStatus) bool {
	return runs(func(r v1alpha1.ReportedHardware) bool { return cmp.Equal(r.LiveHardware, want) })
}

// TestLiveChanges: what the GuestPod asks for is made, each once, and what libvirt runs is reported, also where nobody has asked for it.
func TestLiveChanges(t *testing.T) {
	l, domain := liveGuest(t)
	l.becomes(t, "what runs", is(v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20}))
	if calls := domain.did(); len(calls) > 0 {
		t.Fatalf("without a wish libvirt is asked for %+v", calls)
	}
	wish := v1alpha1.LiveHardware{VCPUs: 4, MemoryKiB: 2 << 20, Absent: []string{"disk.data"}, LinksDown: []string{"default"}, Ejected: []string{"init"}}
	l.asks(t, wish)
	l.becomes(t, "all of it", is(wish))
	if diff := cmp.Diff([]hypervisor.Change{{Kind: hypervisor.SetVCPUs, Amount: 4}, {Kind: hypervisor.AddMemory, Amount: 1 << 20},
		{Kind: hypervisor.Unplug, Alias: "ua-data"}, {Kind: hypervisor.LinkDown, Alias: "ua-default"}, {Kind: hypervisor.Eject, Alias: "ua-init"}},
		domain.did()); diff != "" {
		t.Errorf("libvirt is asked for (-want +got)\n%s", diff)
	}
	wish.LinksDown, wish.Ejected = nil, nil
	l.asks(t, wish)
	l.becomes(t, "link and medium", is(wish))
	domain.set(func() {
		domain.now.Aliases = slices.DeleteFunc(domain.now.Aliases, func(a string) bool { return a == "ua-empty" })
	})
	status := l.becomes(t, "what somebody has unplugged by hand", runs(func(r v1alpha1.ReportedHardware) bool { return len(r.Absent) == 2 && r.Hindrance != "" }))
	if want := "disk 'empty': only a restart does that"; status.Running.Hindrance != want {
		t.Errorf("the hindrance is '%s'", status.Running.Hindrance)
	}
}

// TestLiveHindrance: what libvirt refuses or the guest ignores is said, and keeps nothing else from being done.
func TestLiveHindrance(t *testing.T) {
	l, domain := liveGuest(t)
	domain.refuses = map[hypervisor.ChangeKind]bool{hypervisor.Eject: true}
	domain.ignore = map[hypervisor.ChangeKind]bool{hypervisor.Unplug: true}
	l.asks(t, v1alpha1.LiveHardware{VCPUs: 3, MemoryKiB: 1 << 20, Absent: []string{"interface.default"}, Ejected: []string{"init"}})
	status := l.becomes(t, "a CPU more, and two hindrances", runs(func(r v1alpha1.ReportedHardware) bool {
		return r.VCPUs == 3 && strings.Contains(r.Hindrance, "no medium in CD-ROM 'init': the tray is locked") &&
			strings.Contains(r.Hindrance, "no interface 'default': the guest has been asked, and has not done it")
	}))
	if len(status.Running.Absent)+len(status.Running.Ejected) > 0 {
		t.Errorf("the launcher reports what it has asked for: %+v", status.Running)
	}
	domain.set(func() {
		domain.now.Aliases = slices.DeleteFunc(domain.now.Aliases, func(a string) bool { return a == "ua-default" })
	})
	l.becomes(t, "the guest that obeys late", runs(func(r v1alpha1.ReportedHardware) bool {
		return fmt.Sprint(r.Absent) == "[interface.default]" && !strings.Contains(r.Hindrance, "interface")
	}))
	unplugs := slices.DeleteFunc(domain.did(), func(c hypervisor.Change) bool { return c.Kind != hypervisor.Unplug })
	if len(unplugs) != 1 {
		t.Errorf("the guest was asked %d times within its pause", len(unplugs))
	}
	l.libvirt.becomes("power off", hypervisor.PoweredOff)
	if end := l.becomes(t, "the end", in(v1alpha1.GuestPoweredOff)); end.Running != nil {
		t.Errorf("after the end %+v runs", end.Running)
	}
}
