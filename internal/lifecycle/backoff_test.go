package lifecycle

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestShortLivesBackOff: VMIs that end soon after their start are replaced after a growing backoff, whether they fail or shut down.
func TestShortLivesBackOff(t *testing.T) {
	for _, test := range []struct {
		name, why string
		strategy  v1.VirtualMachineRunStrategy
		life      []v1.VirtualMachineInstancePhase
	}{
		{"never starts", "it fails", v1.RunStrategyAlways, []v1.VirtualMachineInstancePhase{v1.Failed}},
		{"crashes", "it fails once it runs", v1.RunStrategyAlways, []v1.VirtualMachineInstancePhase{v1.Running, v1.Failed}},
		{"shuts down", "it does so at once", v1.RunStrategyAlways, []v1.VirtualMachineInstancePhase{v1.Running, v1.Succeeded}},
		{"crashes and is rerun", "it fails once it runs", v1.RunStrategyRerunOnFailure, []v1.VirtualMachineInstancePhase{v1.Running, v1.Failed}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, machine(test.strategy))
			for n, seconds := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
				pause := seconds * time.Second
				c.step()
				if c.guest() == nil {
					t.Fatalf("no guest for attempt %d", n)
				}
				for _, phase := range test.life {
					c.phase(phase)
				}
				if result := c.step(); result.RequeueAfter != pause || c.guest() != nil {
					t.Fatalf("%s: after end %d: wait %s, want %s; guest %v", test.why, n+1, result.RequeueAfter, pause, c.guest() != nil)
				}
				if got := c.vm().Status.PrintableStatus; got != v1.VirtualMachineStatusCrashLoopBackOff {
					t.Errorf("status %s", got)
				}
				c.now = c.now.Add(pause)
			}
			c.step()
			c.phase(v1.Running)
			c.now = c.now.Add(stableRun)
			c.step()
			if got := c.vm().Status.StartFailure; got != nil {
				t.Errorf("start failures %+v stay after a stable run", got)
			}
			c.phase(v1.Failed)
			c.step()
			if guest := c.guest(); guest == nil || guest.Status.Phase == v1.Failed {
				t.Error("a guest that ran for long is not started again at once")
			}
		})
	}
}

// TestEndedVMIsThatAreKept: a VMI that its run strategy does not replace has no backoff and no start failure.
func TestEndedVMIsThatAreKept(t *testing.T) {
	for _, test := range []struct {
		strategy v1.VirtualMachineRunStrategy
		end      v1.VirtualMachineInstancePhase
	}{
		{v1.RunStrategyOnce, v1.Failed}, {v1.RunStrategyOnce, v1.Succeeded}, {v1.RunStrategyRerunOnFailure, v1.Succeeded},
	} {
		c := newCluster(t, machine(test.strategy))
		c.step()
		first := c.guest().UID
		c.phase(v1.Running)
		c.phase(test.end)
		result := c.step()
		status := c.vm().Status
		if vmi := c.guest(); vmi == nil || vmi.UID != first || result.RequeueAfter != 0 || status.StartFailure != nil ||
			status.PrintableStatus != v1.VirtualMachineStatusStopped {
			t.Errorf("%s, guest %s: guest %v, looks again after %s, status %+v", test.strategy, test.end, vmi != nil, result.RequeueAfter, status)
		}
	}
}

// TestDeletedGuestIsNoShortLife: a VMI that somebody deletes is replaced at once.
func TestDeletedGuestIsNoShortLife(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	first := c.guest()
	c.finalizers(v1.VirtualMachineInstanceFinalizer)
	c.phase(v1.Running)
	if err := c.Delete(t.Context(), c.guest()); err != nil {
		t.Fatal(err)
	}
	c.phase(v1.Succeeded) // its launcher has had it shut down
	c.finalizers()
	c.step()
	if next := c.guest(); next == nil || next.UID == first.UID || c.vm().Status.StartFailure != nil {
		t.Errorf("guest %v, failures %+v; want another guest and none", next != nil, c.vm().Status.StartFailure)
	}
}

// TestEndIsCountedBeforeTheGuestGoes: a controller that dies at any line counts each end.
func TestEndIsCountedBeforeTheGuestGoes(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	c.phase(v1.Failed)
	for range 10 {
		state := newState(c.vm(), c.guest(), c.now)
		c.controller.act(t.Context(), state) // and dies before it reports
		if c.guest() == nil || c.guest().DeletionTimestamp != nil {
			t.Fatal("the VMI is deleted before status.startFailure counts its end")
		}
	}
	c.step()
	if got := c.vm().Status.StartFailure; got == nil || got.ConsecutiveFailCount != 1 {
		t.Errorf("failures %+v, want 1", got)
	}
}

// TestWrongClocks: whichever clock is wrong, the next start waits for at least minBackoff and at most maxBackoff.
func TestWrongClocks(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct {
		name    string
		skew    time.Duration  // of the launcher's clock
		between func(*cluster) // while the guest, which ends at once, runs
		after   func(*cluster) // once its end is counted
	}{
		{name: "the launcher's jumps ahead", between: func(c *cluster) { c.skew = day }},
		{name: "the launcher's jumps back", between: func(c *cluster) { c.skew = -day }},
		{name: "the launcher's is ahead", skew: day},
		{name: "the launcher's is behind", skew: -day},
		{name: "the controller's jumps back in the pause", after: func(c *cluster) { c.now = c.now.Add(-day) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, machine(v1.RunStrategyAlways))
			c.skew = test.skew
			c.step()
			c.phase(v1.Running)
			if test.between != nil {
				test.between(c)
			}
			c.phase(v1.Failed)
			if got := c.step().RequeueAfter; got != minBackoff {
				t.Fatalf("looks again after %s, want %s", got, minBackoff)
			}
			if test.after != nil {
				test.after(c)
			}
			waited := time.Duration(0)
			for c.guest() == nil {
				again := c.step().RequeueAfter
				if c.guest() != nil {
					break
				}
				if again <= 0 || waited+again > maxBackoff {
					t.Fatalf("looks again after %s, having waited %s", again, waited)
				}
				c.now, waited = c.now.Add(again), waited+again
			}
			if waited < minBackoff {
				t.Errorf("the next guest started after %s", waited)
			}
		})
	}
}

// TestClockOfTheControllerIsBehind: a long run counts as a short one, and the backoff is still bounded.
func TestClockOfTheControllerIsBehind(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	c.now = c.now.Add(-24 * time.Hour)
	c.phase(v1.Running)
	c.step()
	c.now = c.now.Add(time.Hour)
	c.phase(v1.Succeeded)
	if got := c.step().RequeueAfter; got != minBackoff {
		t.Errorf("looks again after %s, want %s", got, minBackoff)
	}
}

// TestStrangeCounts: a restored status may hold any count.
func TestStrangeCounts(t *testing.T) {
	for _, count := range []int{math.MinInt, -5, 0, 1, 64, math.MaxInt} {
		if pause := backoffAfter(count); pause < minBackoff || pause > maxBackoff {
			t.Errorf("pause %s after %d", pause, count)
		}
		vm, vmi := machine(v1.RunStrategyAlways), &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: "guest"}}
		vm.Status.StartFailure = &v1.VirtualMachineStartFailure{ConsecutiveFailCount: count}
		vmi.Status.Phase = v1.Failed
		s := &state{vm: vm, vmi: vmi, strategy: v1.RunStrategyAlways, now: time.Unix(0, 0)}
		s.startFailure = s.nextStartFailure()
		if pause := s.backoff(); pause < minBackoff || pause > maxBackoff {
			t.Errorf("pause %s of a guest that failed after %d others", pause, count)
		}
	}
}
