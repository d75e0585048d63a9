package poll

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestUntil: what has come to pass is seen within 100 ms or a quarter of the time that it took, and within a second.
func TestUntil(t *testing.T) {
	for took, seen := range map[time.Duration]time.Duration{
		0:                      0,
		time.Millisecond:       100 * time.Millisecond,
		300 * time.Millisecond: 300 * time.Millisecond,
		2 * time.Second:        2500 * time.Millisecond,
		time.Minute:            61 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			began, calls := time.Now(), 0
			ok := Until(2*time.Minute, func() bool {
				calls++
				return time.Since(began) >= took
			})
			if after := time.Since(began); !ok || after > seen {
				t.Errorf("what took %s was seen (%t) after %s, want %s at most", took, ok, after, seen)
			}
			if most := 13 + int(took/time.Second); calls > most {
				t.Errorf("what took %s was asked for %d times, want %d at most", took, calls, most)
			}
		})
	}
}

// TestNever: what does not come to pass is asked for until the patience has ended, and at least once.
func TestNever(t *testing.T) {
	for _, patience := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			began, calls := time.Now(), 0
			ok := Until(patience, func() bool { calls++; return false })
			if after := time.Since(began); ok || calls == 0 || after < patience || after > patience+time.Second {
				t.Errorf("with a patience of %s: %t after %s and %d calls", patience, ok, after, calls)
			}
		})
	}
}
