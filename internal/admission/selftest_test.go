package admission

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSelfTest: a replica without capacity is not ready, and is ready when it has capacity again.
func TestSelfTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.Hooks()
		self := c.SelfTest("team")
		if err := self.Check(nil); err != nil || self.Slow() {
			t.Fatal(err)
		}
		if !c.capacity.TryAcquire(maxInFlight) {
			t.Fatal("the self-test keeps capacity")
		}
		began := time.Now()
		if err := self.Check(nil); err == nil || !self.Slow() || time.Since(began) != selfTestTimeout {
			t.Errorf("%v after %s, without capacity", err, time.Since(began))
		}
		c.capacity.Release(maxInFlight)
		if err := self.Check(nil); err != nil || self.Slow() {
			t.Errorf("with capacity again: %v", err)
		}
	})
}
