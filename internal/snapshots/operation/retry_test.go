package operation

import (
	"testing"
	"time"
)

// TestBackoff: thousands of objects that wait forever are read less often the longer they wait.
func TestBackoff(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{
		-time.Hour: PollInterval, 0: PollInterval, time.Minute: 6 * time.Second, 24 * time.Hour: 5 * time.Minute,
	} {
		if got := Backoff(waited); got != want {
			t.Errorf("after %s: %s, want %s", waited, got, want)
		}
	}
}
