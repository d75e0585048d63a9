package launcherserver

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// TestSession: a new client ends the one before, and waits until that has closed its connection; one that preserves the session is refused. The tests of
// package subresource call the whole server by TLS.
func TestSession(t *testing.T) {
	var s session
	first, releaseFirst, err := s.takeOver(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.takeOver(t.Context(), true); !errors.Is(err, errTaken) {
		t.Errorf("a client that preserves the session gets %v", err)
	}
	var closed bool
	go func() {
		<-first.Done()
		time.Sleep(10 * time.Millisecond)
		closed = true
		releaseFirst()
	}()
	second, releaseSecond, err := s.takeOver(t.Context(), false)
	if err != nil || !closed {
		t.Fatalf("the second client has the session before the first one has closed: %v", err)
	}
	if second.Err() != nil {
		t.Error("the second client is ended by the first one's end")
	}
	releaseSecond()
	if !errors.Is(second.Err(), context.Canceled) {
		t.Error("a client that has released its session goes on")
	}
	third, releaseThird, err := s.takeOver(t.Context(), true)
	if err != nil || third.Err() != nil {
		t.Errorf("a session that nobody has is refused: %v", err)
	}
	releaseThird()
}

// TestAdmitsNobody: without clients, or with ones that cannot be read, no handshake succeeds.
func TestAdmitsNobody(t *testing.T) {
	own, err := newCertificate()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := handshakeConfig(own, nil); err == nil {
		t.Error("a GuestPod without clients admits one")
	}
	if _, err := handshakeConfig(own, &v1alpha1.GuestPodClients{Authorities: "junk", Name: "name"}); err == nil {
		t.Error("authorities that are no certificates admit a client")
	}
}
