package hypervisor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/libvirt"
)

// TestWatch: each step in the life of a domain is an event, and a daemon that was restarted is followed again, after an event without a domain.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "kiln-watch-") // sockets want a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	first, second := libvirt.Start(t), libvirt.Start(t)
	socket := filepath.Join(dir, "s")
	if err := os.Symlink(first.Socket, socket); err != nil {
		t.Fatal(err)
	}
	l := New(socket)
	t.Cleanup(l.Close)
	events := make(chan Event, 100)
	go l.Watch(t.Context(), func(event Event) { events <- event })
	next := func(want Event) {
		t.Helper()
		select {
		case got := <-events:
			if got != want {
				t.Errorf("event of '%s', want '%s'", got.Domain, want.Domain)
			}
		case <-time.After(time.Minute):
			t.Fatalf("no event of '%s'", want.Domain)
		}
	}
	silent := func() {
		for range len(events) {
			<-events
		}
	}
	next(Event{})
	vmi := explicit.Plain(t, "watched")
	bindings := backend.AssumedBindings(vmi)
	bindings.Serial, bindings.VNC, bindings.SerialLog = "", "", ""
	headless := false
	vmi.Spec.Domain.Devices.AutoattachGraphicsDevice = &headless
	if err := l.Start(t.Context(), guestOf(vmi, explicit.Documents(t, vmi, bindings), nil)); err != nil {
		t.Fatal(err)
	}
	for _, happens := range []func(string) error{first.Suspend, first.Resume, first.Destroy} {
		waitUntil(t, "the events of the previous step", func() bool { return len(events) > 0 })
		time.Sleep(time.Second) // libvirt does not say which event is the last one of a step
		silent()
		if err := happens("default_watched"); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "an event", func() bool { return len(events) > 0 })
		if got := <-events; got.Domain != "default_watched" {
			t.Errorf("event of '%s'", got.Domain)
		}
		events <- Event{Domain: "default_watched"} // the next step waits for one
	}
	if err := errors.Join(first.Close(), os.Remove(socket), os.Symlink(second.Socket, socket)); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "events of the new daemon", func() bool {
		for range len(events) {
			if event := <-events; event == (Event{}) {
				return true
			}
		}
		return false
	})
	if _, err := second.Define(`<domain type="qemu"><name>default_next</name><memory unit="MiB">32</memory>` +
		`<os><type arch="x86_64" machine="q35">hvm</type></os></domain>`); err != nil {
		t.Fatal(err)
	}
	next(Event{Domain: "default_next"})
}
