package guest

import (
	"errors"
	"testing"
	"time"
)

// TestRequestsAreRepeated: a request without effect is repeated after growing pauses, and forgotten when its change is no longer pending.
func TestRequestsAreRepeated(t *testing.T) {
	t.Parallel()
	r, now, open := newChangeRequests(), time.Now(), []pendingChange{{name: "no disk 'data'"}}
	if left := r.timeUntilDue("no disk 'data'", now); left > 0 {
		t.Fatalf("the first request waits %s", left)
	}
	var pauses []time.Duration
	for range 9 {
		pause := r.recordAttempt("no disk 'data'", nil, now)
		if left := r.timeUntilDue("no disk 'data'", now); left != pause {
			t.Errorf("after a request %s are left, want %s", left, pause)
		}
		now = now.Add(pause)
		pauses = append(pauses, pause)
	}
	if pauses[0] != firstPause || pauses[1] != 2*firstPause || pauses[8] != longestPause {
		t.Errorf("the pauses are %v", pauses)
	}
	r.forgetCompleted(open)
	if got := r.hindranceText(open); got != "no disk 'data': the guest has been asked, and has not done it" {
		t.Errorf("the hindrance is '%s'", got)
	}
	r.recordAttempt("no disk 'data'", errors.New("busy"), now)
	if got := r.hindranceText(open); got != "no disk 'data': busy" {
		t.Errorf("the hindrance is '%s'", got)
	}
	r.forgetCompleted(nil)
	if got := r.hindranceText(open); got != "" || r.timeUntilDue("no disk 'data'", now) > 0 {
		t.Errorf("after it was met: '%s'", got)
	}
}
