package lifecycle

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestShortLivesBackOff: VMIs that end soon after their start are replaced after a growing back-off, whether they fail or shut down.
func TestShortLivesBackOff(t *testing.T) {
	for _, test := range []struct {
		name, why string
		strategy  v1.VirtualMachineRunStrategy
		life      []v1.VirtualMachineInstancePhase
	}{
		{"never starts", "it fails", v1.RunStrategyAlways, []v1.VirtualMachineInstancePhase{v1.Failed}},
		{"crashes", "it fails once it runs", v1.RunStrategyAlways, []v1.VirtualMachineInstancePhase{v1.Running, v1.Failed}},
		{"shuts down", "it shuts down at once", v1.RunStrategyAlways, []v1.VirtualMachineInstancePhase{v1.Running, v1.Succeeded}},
		{"crashes and is rerun", "it fails once it runs", v1.RunStrategyRerunOnFailure, []v1.VirtualMachineInstancePhase{v1.Running, v1.Failed}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, newVM(test.strategy))
			for n, seconds := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
				pause := seconds * time.Second
				c.reconcileRepeatedly()
				if c.vmi() == nil {
					t.Fatalf("no guest for attempt %d", n)
				}
				for _, phase := range test.life {
					c.setPhase(phase)
				}
				if result := c.reconcileRepeatedly(); result.RequeueAfter != pause || c.vmi() != nil {
					t.Fatalf("%s: after end %d: wait %s, want %s; guest %v", test.why, n+1, result.RequeueAfter, pause, c.vmi() != nil)
				}
				if got := c.vm().Status.PrintableStatus; got != v1.VirtualMachineStatusCrashLoopBackOff {
					t.Errorf("status %s", got)
				}
				c.now = c.now.Add(pause)
			}
			c.reconcileRepeatedly()
			c.setPhase(v1.Running)
			c.now = c.now.Add(stableRun)
			c.reconcileRepeatedly()
			if got := c.vm().Status.StartFailure; got != nil {
				t.Errorf("start failures %+v stay after a stable run", got)
			}
			c.setPhase(v1.Failed)
			c.reconcileRepeatedly()
			if guest := c.vmi(); guest == nil || guest.Status.Phase == v1.Failed {
				t.Error("a guest that ran for long is not started again at once")
			}
		})
	}
}

// TestEndedVMIsThatAreKept: a VMI that its run strategy does not replace has no back-off and no start failure.
func TestEndedVMIsThatAreKept(t *testing.T) {
	for _, test := range []struct {
		strategy v1.VirtualMachineRunStrategy
		end      v1.VirtualMachineInstancePhase
	}{
		{v1.RunStrategyOnce, v1.Failed}, {v1.RunStrategyOnce, v1.Succeeded}, {v1.RunStrategyRerunOnFailure, v1.Succeeded},
	} {
		c := newCluster(t, newVM(test.strategy))
		c.reconcileRepeatedly()
		first := c.vmi().UID
		c.setPhase(v1.Running)
		c.setPhase(test.end)
		result := c.reconcileRepeatedly()
		status := c.vm().Status
		if vmi := c.vmi(); vmi == nil || vmi.UID != first || result.RequeueAfter != 0 || status.StartFailure != nil ||
			status.PrintableStatus != v1.VirtualMachineStatusStopped {
			t.Errorf("%s, guest %s: guest %v, looks again after %s, status %+v", test.strategy, test.end, vmi != nil, result.RequeueAfter, status)
		}
	}
}

// TestDeletedGuestIsNoShortLife: a VMI that somebody deletes is replaced at once.
func TestDeletedGuestIsNoShortLife(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	first := c.vmi()
	c.setFinalizers(v1.VirtualMachineInstanceFinalizer)
	c.setPhase(v1.Running)
	if err := c.Delete(t.Context(), c.vmi()); err != nil {
		t.Fatal(err)
	}
	c.setPhase(v1.Succeeded) // its launcher has had it shut down
	c.setFinalizers()
	c.reconcileRepeatedly()
	if next := c.vmi(); next == nil || next.UID == first.UID || c.vm().Status.StartFailure != nil {
		t.Errorf("guest %v, failures %+v; want another guest and none", next != nil, c.vm().Status.StartFailure)
	}
}

// endGuest sets the final phase of the VMI, as internal/vmipod does.
func (c *testCluster) endGuest(phase v1.VirtualMachineInstancePhase, why condition.Cause) {
	c.Helper()
	vmi := c.vmi()
	condition.SetEnd(vmi, phase, why)
	if err := c.Status().Update(c.Context(), vmi); err != nil {
		c.Fatal(err)
	}
}

// TestDisruptionIsNoFailure: a guest that the cluster or a person took away starts again at once, and its end is not counted. The end of a guest that never
// ran is counted.
func TestDisruptionIsNoFailure(t *testing.T) {
	for _, reason := range []string{v1alpha1.ReasonDisrupted, v1alpha1.ReasonNodeLost, v1alpha1.ReasonPodDeleted} {
		for _, ran := range []bool{true, false} {
			for failed := range 2 { // guests before
				c := newCluster(t, newVM(v1.RunStrategyAlways))
				c.reconcileRepeatedly()
				for range failed {
					c.endGuest(v1.Failed, condition.Cause{Reason: v1alpha1.ReasonCrashed})
					c.reconcileRepeatedly()
					c.now = c.now.Add(minBackoff)
					c.reconcileRepeatedly()
				}
				first := c.vmi()
				if ran {
					c.setPhase(v1.Running)
				}
				c.endGuest(v1.Failed, condition.Cause{Reason: reason, Message: "drained"})
				c.reconcileRepeatedly()
				next, status := c.vmi(), c.vm().Status
				count := 0
				if status.StartFailure != nil {
					count = status.StartFailure.ConsecutiveFailCount
				}
				switch {
				case ran && (next == nil || next.UID == first.UID || status.PrintableStatus != v1.VirtualMachineStatusStarting || count != failed):
					t.Errorf("%s, %d failures before: guest %v, status %s, %d failures", reason, failed, next != nil, status.PrintableStatus, count)
				case !ran && (next != nil || count != failed+1):
					t.Errorf("%s of a guest that never ran: guest %v, %d failures", reason, next != nil, count)
				}
			}
		}
	}
}

// TestEvictionByKubeletCounts: a guest that fills its disks until kubelet evicts its pod waits for a back-off. Otherwise its successors would start and fill
// the disks forever.
func TestEvictionByKubeletCounts(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	c.setPhase(v1.Running)
	c.endGuest(v1.Failed, condition.Cause{Reason: v1alpha1.ReasonEvicted, Message: "ephemeral local storage usage exceeds the total limit"})
	if result := c.reconcileRepeatedly(); c.vmi() != nil || result.RequeueAfter != minBackoff {
		t.Errorf("guest %v, the next one after %s", c.vmi() != nil, result.RequeueAfter)
	}
}

// TestCrashLoopIsExplained: while the next guest waits, conditions and events say how the last guest ended, how many have failed, and when the next guest
// starts.
func TestCrashLoopIsExplained(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	for _, retry := range []string{"2026-01-01T00:00:10Z", "2026-01-01T00:00:30Z"} {
		c.setPhase(v1.Running)
		c.reconcileRepeatedly()
		c.endGuest(v1.Failed, condition.Cause{Reason: v1alpha1.ReasonCrashed, Message: "QEMU was killed"})
		for len(c.eventRecorder().Events) > 0 {
			<-c.eventRecorder().Events
		}
		c.reconcileRepeatedly()
		c.reconcileRepeatedly()
		vm := c.vm()
		ready, failure := conditionOf(vm, v1.VirtualMachineReady), conditionOf(vm, v1.VirtualMachineFailure)
		if c.vmi() != nil || ready.Status != "False" || ready.Reason != v1alpha1.ReasonCrashed || ready.Message != "QEMU was killed" {
			t.Errorf("Ready is %+v", ready)
		}
		count := vm.Status.StartFailure.ConsecutiveFailCount
		want := fmt.Sprintf("guests that ended too soon, in a row: %d; the next one starts at %s. The last one: Crashed: QEMU was killed", count, retry)
		if failure.Reason != v1alpha1.ReasonCrashLoopBackOff || failure.Message != want {
			t.Errorf("Failure is %+v, want %s", failure, want)
		}
		var recorded []string
		for len(c.eventRecorder().Events) > 0 {
			recorded = append(recorded, <-c.eventRecorder().Events)
		}
		if diff := cmp.Diff([]string{"Warning Crashed QEMU was killed", "Normal SuccessfulDelete stopped the virtual machine instance",
			"Warning CrashLoopBackOff " + want}, recorded); diff != "" {
			t.Errorf("events -want +got\n%s", diff)
		}
		c.now = vm.Status.StartFailure.RetryAfterTimestamp.Time
		c.reconcileRepeatedly()
		if failure := conditionOf(c.vm(), v1.VirtualMachineFailure); c.vmi() == nil || failure != (v1.VirtualMachineCondition{}) {
			t.Errorf("after the back-off there is %+v", failure)
		}
	}
}

// TestUnknownEndIsNotInvented: if it is unknown how the last guest ended, the condition does not repeat its own message as the cause.
func TestUnknownEndIsNotInvented(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	until := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC))
	vm.Status.StartFailure = &v1.VirtualMachineStartFailure{ConsecutiveFailCount: 1, RetryAfterTimestamp: &until}
	c := newCluster(t, vm)
	c.reconcileRepeatedly()
	const want = "guests that ended too soon, in a row: 1; the next one starts at 2026-01-01T00:00:10Z"
	if ready := conditionOf(c.vm(), v1.VirtualMachineReady); ready.Message != want || ready.Reason != v1alpha1.ReasonCrashLoopBackOff {
		t.Errorf("Ready is %+v", ready)
	}
}

// conditionOf returns a condition of a VM, an empty one if it has none of the type.
func conditionOf(vm *v1.VirtualMachine, of v1.VirtualMachineConditionType) (found v1.VirtualMachineCondition) {
	for _, c := range conditionsOfType(vm, of) {
		found = c
	}
	return found
}

// TestEndIsCountedBeforeTheGuestGoes: each end is counted, at whatever line the controller dies.
func TestEndIsCountedBeforeTheGuestGoes(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	c.setPhase(v1.Failed)
	for range 10 {
		state := newState(c.vm(), c.vmi(), c.now)
		c.controller.applyRunStrategy(t.Context(), state) // and dies before it reports
		if c.vmi() == nil || c.vmi().DeletionTimestamp != nil {
			t.Fatal("the VMI is deleted before status.startFailure counts its end")
		}
	}
	c.reconcileRepeatedly()
	if got := c.vm().Status.StartFailure; got == nil || got.ConsecutiveFailCount != 1 {
		t.Errorf("failures %+v, want 1", got)
	}
}

// TestWrongClocks: whichever clock is wrong, the next start waits for at least minBackoff and at most maxBackoff.
func TestWrongClocks(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct {
		name    string
		skew    time.Duration      // of the launcher's clock
		between func(*testCluster) // while the guest, which ends at once, runs
		after   func(*testCluster) // once its end is counted
	}{
		{name: "the launcher's jumps ahead", between: func(c *testCluster) { c.skew = day }},
		{name: "the launcher's jumps back", between: func(c *testCluster) { c.skew = -day }},
		{name: "the launcher's is ahead", skew: day},
		{name: "the launcher's is behind", skew: -day},
		{name: "the controller's jumps back in the pause", after: func(c *testCluster) { c.now = c.now.Add(-day) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, newVM(v1.RunStrategyAlways))
			c.skew = test.skew
			c.reconcileRepeatedly()
			c.setPhase(v1.Running)
			if test.between != nil {
				test.between(c)
			}
			c.setPhase(v1.Failed)
			if got := c.reconcileRepeatedly().RequeueAfter; got != minBackoff {
				t.Fatalf("looks again after %s, want %s", got, minBackoff)
			}
			if test.after != nil {
				test.after(c)
			}
			waited := time.Duration(0)
			for c.vmi() == nil {
				again := c.reconcileRepeatedly().RequeueAfter
				if c.vmi() != nil {
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

// TestClockOfTheControllerIsBehind: a long run counts as a short one, and the back-off is still bounded.
func TestClockOfTheControllerIsBehind(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	c.now = c.now.Add(-24 * time.Hour)
	c.setPhase(v1.Running)
	c.reconcileRepeatedly()
	c.now = c.now.Add(time.Hour)
	c.setPhase(v1.Succeeded)
	if got := c.reconcileRepeatedly().RequeueAfter; got != minBackoff {
		t.Errorf("looks again after %s, want %s", got, minBackoff)
	}
}

// TestStrangeCounts: a restored status may hold any count.
func TestStrangeCounts(t *testing.T) {
	for _, count := range []int{math.MinInt, -5, 0, 1, 64, math.MaxInt} {
		if pause := backoffAfter(count); pause < minBackoff || pause > maxBackoff {
			t.Errorf("pause %s after %d", pause, count)
		}
		vm, vmi := newVM(v1.RunStrategyAlways), &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: "guest"}}
		vm.Status.StartFailure = &v1.VirtualMachineStartFailure{ConsecutiveFailCount: count}
		vmi.Status.Phase = v1.Failed
		s := &state{vm: vm, vmi: vmi, strategy: v1.RunStrategyAlways, now: time.Unix(0, 0)}
		s.startFailure = s.nextStartFailure()
		if pause := s.remainingBackoff(); pause < minBackoff || pause > maxBackoff {
			t.Errorf("pause %s of a guest that failed after %d others", pause, count)
		}
	}
}

// TestEventsTellInOrder: the events of a VM first say how its guest ended, even if that was known before the VMI had its final phase, and then what was
// done for it. Each is recorded once.
func TestEventsTellInOrder(t *testing.T) {
	crashed := condition.Cause{Reason: v1alpha1.ReasonCrashed, Message: "out of memory"}
	drained := condition.Cause{Reason: v1alpha1.ReasonDisrupted, Message: "drained"}
	for _, test := range []struct {
		why      string
		strategy v1.VirtualMachineRunStrategy
		end      condition.Cause
		want     []string
	}{
		{"it is started again after a back-off", v1.RunStrategyAlways, crashed, []string{"Warning Crashed", "Normal SuccessfulDelete", "Warning CrashLoopBackOff"}},
		{"it stays", v1.RunStrategyOnce, crashed, []string{"Warning Crashed"}},
		{"it is started again at once", v1.RunStrategyAlways, drained, []string{"Warning Disrupted", "Normal SuccessfulDelete", "Normal SuccessfulCreate"}},
	} {
		c := newCluster(t, newVM(test.strategy))
		c.reconcileRepeatedly()
		c.setPhase(v1.Running)
		c.reconcileRepeatedly()
		vmi := c.vmi()
		condition.SetReady(vmi, corev1.ConditionFalse, test.end)
		if err := c.Status().Update(t.Context(), vmi); err != nil {
			t.Fatal(err)
		}
		c.reconcileRepeatedly()
		for len(c.eventRecorder().Events) > 0 {
			<-c.eventRecorder().Events
		}
		c.endGuest(v1.Failed, test.end)
		c.reconcileRepeatedly()
		c.reconcileRepeatedly()
		var recorded []string
		for len(c.eventRecorder().Events) > 0 {
			words := strings.Fields(<-c.eventRecorder().Events)
			recorded = append(recorded, strings.Join(words[:2], " "))
		}
		if diff := cmp.Diff(test.want, recorded); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.why, diff)
		}
	}
}
