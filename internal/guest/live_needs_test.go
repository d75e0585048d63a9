package guest

import (
	"errors"
	"testing"
	"time"
)

// TestRequestsAreRepeated: one that leads to nothing is made again after a pause that grows, and is forgotten when it is met.
func TestRequestsAreRepeated(t *testing.T) {
	t.Parallel()
	r, now, open := newRequests(), time.Now(), []need{{what: "no disk 'data'"}}
	if left := r.due("no disk 'data'", now); left > 0 {
		t.Fatalf("the first request waits %s", left)
	}
	var pauses []time.Duration
	for range 9 {
		pause := r.note("no disk 'data'", nil, now)
		if left := r.due("no disk 'data'", now); left != pause {
			t.Errorf("after a request %s are left, want %s", left, pause)
		}
		now = now.Add(pause)
		pauses = append(pauses, pause)
	}
	if pauses[0] != firstPause || pauses[1] != 2*firstPause || pauses[8] != longestPause {
		t.Errorf("the pauses are %v", pauses)
	}
	r.keep(open)
	if got := r.hindrance(open); got != "no disk 'data': the guest has been asked, and has not done it" {
		t.Errorf("the hindrance is '%s'", got)
	}
	r.note("no disk 'data'", errors.New("busy"), now)
	if got := r.hindrance(open); got != "no disk 'data': busy" {
		t.Errorf("the hindrance is '%s'", got)
	}
	r.keep(nil)
	if got := r.hindrance(open); got != "" || r.due("no disk 'data'", now) > 0 {
		t.Errorf("after it was met: '%s'", got)
	}
}
