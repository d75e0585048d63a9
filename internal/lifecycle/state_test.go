package lifecycle

import (
	"testing"
	"time"

	v1 "kubevirt.io/api/core/v1"
)

func TestRunStrategies(t *testing.T) {
	for _, test := range []struct {
		strategy v1.VirtualMachineRunStrategy
		phase    v1.VirtualMachineInstancePhase // empty: no guest
		want     step
		why      string
	}{
		{v1.RunStrategyAlways, "", start, "always"},
		{v1.RunStrategyAlways, v1.Running, stay, "it runs"},
		{v1.RunStrategyAlways, v1.Succeeded, stop, "another takes its place"},
		{v1.RunStrategyAlways, v1.Failed, stop, "another takes its place"},
		{v1.RunStrategyRerunOnFailure, "", start, "the first run"},
		{v1.RunStrategyRerunOnFailure, v1.Failed, stop, "rerun"},
		{v1.RunStrategyRerunOnFailure, v1.Succeeded, stay, "done; the VMI stays as the sign of it"},
		{v1.RunStrategyOnce, "", start, "the one run"},
		{v1.RunStrategyOnce, v1.Failed, stay, "one run"},
		{v1.RunStrategyOnce, v1.Succeeded, stay, "one run"},
		{v1.RunStrategyHalted, "", stay, "halted"},
		{v1.RunStrategyHalted, v1.Running, stop, "halted"},
		{v1.RunStrategyManual, "", stay, "by request alone"},
		{v1.RunStrategyManual, v1.Failed, stay, "by request alone"},
		{v1.RunStrategyWaitAsReceiver, "", stay, "a guest comes by migration"},
	} {
		s := state{strategy: test.strategy, vm: machine(test.strategy)}
		if test.phase != "" {
			s.vmi = &v1.VirtualMachineInstance{}
			s.vmi.Status.Phase = test.phase
		}
		if got := s.next(); got != test.want {
			t.Errorf("%s with a guest '%s': %d, want %d: %s", test.strategy, test.phase, got, test.want, test.why)
		}
	}
}

func TestFailingGuestsBackOff(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	for n, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second, 300 * time.Second} {
		c.step()
		if c.guest() == nil {
			t.Fatalf("no guest for attempt %d", n)
		}
		c.phase(v1.Failed)
		if result := c.step(); result.RequeueAfter != pause || c.guest() != nil {
			t.Fatalf("after failure %d: wait %s, want %s; guest %v", n+1, result.RequeueAfter, pause, c.guest() != nil)
		}
		if got := c.vm().Status.PrintableStatus; got != v1.VirtualMachineStatusCrashLoopBackOff {
			t.Errorf("status %s", got)
		}
		c.now = c.now.Add(pause)
	}
	c.step()
	c.phase(v1.Running)
	vmi := c.guest()
	c.now = vmi.CreationTimestamp.Add(steady)
	c.step()
	if got := c.vm().Status.StartFailure; got != nil {
		t.Errorf("failures %+v are still counted against a guest that runs well", got)
	}
}
