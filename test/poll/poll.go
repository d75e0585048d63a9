// Package poll waits in tests for what another process does.
package poll

import "time"

const (
	shortest = 100 * time.Millisecond
	longest  = time.Second
)

// Until calls done until it returns true, and reports whether it has within patience. The pause after a call is a quarter of the time that has passed, 100 ms
// at least and one second at most: many a condition starts kubectl, and so takes the CPU from what it waits for.
func Until(patience time.Duration, done func() bool) bool {
	for began := time.Now(); !done(); time.Sleep(min(max(time.Since(began)/4, shortest), longest)) {
		if time.Since(began) >= patience {
			return false
		}
	}
	return true
}
