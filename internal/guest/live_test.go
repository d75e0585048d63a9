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

// fakeLive is the running domain of resizableVMI. It makes each change, except changes of the kinds refused and ignored.
type fakeLive struct {
	mutex            sync.Mutex
	hardware         hypervisor.Hardware
	calls            []hypervisor.Change
	refused, ignored map[hypervisor.ChangeKind]bool
	err              error
	events           chan struct{}
	cpu              *v1alpha1.ReportedCPU
}

func (f *fakeLive) RunningCPU(context.Context, hypervisor.Owner) (*v1alpha1.ReportedCPU, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.cpu, f.err
}

func newFakeLive() *fakeLive {
	return &fakeLive{hardware: hypervisor.Hardware{VCPUs: 2, MemoryKiB: 1 << 20,
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
	now := f.hardware
	now.Aliases, now.Down, now.Empty = slices.Clone(now.Aliases), slices.Clone(now.Down), slices.Clone(now.Empty)
	return now, f.err
}

func (f *fakeLive) Change(_ context.Context, _ hypervisor.Guest, change hypervisor.Change) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.calls = append(f.calls, change)
	if f.refused[change.Kind] {
		return errors.New("the tray is locked")
	}
	if f.ignored[change.Kind] {
		return nil
	}
	gone := func(alias string) bool { return alias == change.Alias }
	switch change.Kind {
	case hypervisor.SetVCPUs:
		f.hardware.VCPUs = uint(change.Amount)
	case hypervisor.AddMemory:
		f.hardware.MemoryKiB += change.Amount
	case hypervisor.LinkDown:
		f.hardware.Down = append(f.hardware.Down, change.Alias)
	case hypervisor.LinkUp:
		f.hardware.Down = slices.DeleteFunc(f.hardware.Down, gone)
	case hypervisor.Eject:
		f.hardware.Empty = append(f.hardware.Empty, change.Alias)
	case hypervisor.Insert:
		f.hardware.Empty = slices.DeleteFunc(f.hardware.Empty, gone)
	case hypervisor.Unplug:
		f.hardware.Aliases = slices.DeleteFunc(f.hardware.Aliases, gone)
	}
	f.events <- struct{}{}
	return nil
}

// update changes the fake while its guest runs, and reports an event.
func (f *fakeLive) update(change func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change()
	f.events <- struct{}{}
}

func (f *fakeLive) recordedChanges() []hypervisor.Change {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.calls)
}

// startGuestWithLiveHardware starts a guest with fakes. It returns the guest and its running domain.
func startGuestWithLiveHardware(t *testing.T) (*testGuest, *fakeLive) {
	t.Helper()
	domain := newFakeLive()
	l := startTestGuest(t, serveVMI(t, resizableVMI(t)), newFakeHypervisor(), func(g *guest.Guest, _ *fakeMachine) { g.Live = domain })
	return l, domain
}

func runsHardware(want v1alpha1.LiveHardware) func(v1alpha1.GuestPodStatus) bool {
	return reportsRunning(func(r v1alpha1.ReportedHardware) bool { return cmp.Equal(r.LiveHardware, want) })
}

// TestLiveChanges: each change requested in the GuestPod is made once. The hardware that libvirt runs is reported, including changes that were not requested.
func TestLiveChanges(t *testing.T) {
	l, domain := startGuestWithLiveHardware(t)
	l.waitForStatus(t, "what runs", runsHardware(v1alpha1.LiveHardware{VCPUs: 2, MemoryKiB: 1 << 20}))
	if calls := domain.recordedChanges(); len(calls) > 0 {
		t.Fatalf("without a wish libvirt is asked for %+v", calls)
	}
	wish := v1alpha1.LiveHardware{VCPUs: 4, MemoryKiB: 2 << 20, Absent: []string{"disk.data"}, LinksDown: []string{"default"}, Ejected: []string{"init"}}
	l.requestHardware(t, wish)
	l.waitForStatus(t, "all of it", runsHardware(wish))
	if diff := cmp.Diff([]hypervisor.Change{{Kind: hypervisor.SetVCPUs, Amount: 4}, {Kind: hypervisor.AddMemory, Amount: 1 << 20},
		{Kind: hypervisor.Unplug, Alias: "ua-data"}, {Kind: hypervisor.LinkDown, Alias: "ua-default"}, {Kind: hypervisor.Eject, Alias: "ua-init"}},
		domain.recordedChanges()); diff != "" {
		t.Errorf("libvirt is asked for (-want +got)\n%s", diff)
	}
	wish.LinksDown, wish.Ejected = nil, nil
	l.requestHardware(t, wish)
	l.waitForStatus(t, "link and medium", runsHardware(wish))
	domain.update(func() {
		domain.hardware.Aliases = slices.DeleteFunc(domain.hardware.Aliases, func(a string) bool { return a == "ua-empty" })
	})
	status := l.waitForStatus(t, "the disk that was unplugged by hand",
		reportsRunning(func(r v1alpha1.ReportedHardware) bool { return len(r.Absent) == 2 && r.Hindrance != "" }))
	if want := "disk 'empty': only a restart does that"; status.Running.Hindrance != want {
		t.Errorf("the hindrance is '%s'", status.Running.Hindrance)
	}
}

// TestLiveHindrance: a change that libvirt refuses or the guest ignores is reported as a hindrance, and does not prevent other changes.
func TestLiveHindrance(t *testing.T) {
	l, domain := startGuestWithLiveHardware(t)
	domain.refused = map[hypervisor.ChangeKind]bool{hypervisor.Eject: true}
	domain.ignored = map[hypervisor.ChangeKind]bool{hypervisor.Unplug: true}
	l.requestHardware(t, v1alpha1.LiveHardware{VCPUs: 3, MemoryKiB: 1 << 20, Absent: []string{"interface.default"}, Ejected: []string{"init"}})
	status := l.waitForStatus(t, "a CPU more, and two hindrances", reportsRunning(func(r v1alpha1.ReportedHardware) bool {
		return r.VCPUs == 3 && strings.Contains(r.Hindrance, "no medium in CD-ROM 'init': the tray is locked") &&
			strings.Contains(r.Hindrance, "no interface 'default': the guest has been asked, and has not done it")
	}))
	if len(status.Running.Absent)+len(status.Running.Ejected) > 0 {
		t.Errorf("the launcher reports what it has asked for: %+v", status.Running)
	}
	domain.update(func() {
		domain.hardware.Aliases = slices.DeleteFunc(domain.hardware.Aliases, func(a string) bool { return a == "ua-default" })
	})
	l.waitForStatus(t, "the guest that obeys late", reportsRunning(func(r v1alpha1.ReportedHardware) bool {
		return fmt.Sprint(r.Absent) == "[interface.default]" && !strings.Contains(r.Hindrance, "interface")
	}))
	unplugs := slices.DeleteFunc(domain.recordedChanges(), func(c hypervisor.Change) bool { return c.Kind != hypervisor.Unplug })
	if len(unplugs) != 1 {
		t.Errorf("the guest was asked %d times within its pause", len(unplugs))
	}
	l.libvirt.setState("power off", hypervisor.PoweredOff)
	if end := l.waitForStatus(t, "the end", inState(v1alpha1.GuestPoweredOff)); end.Running != nil {
		t.Errorf("after the end %+v runs", end.Running)
	}
}
