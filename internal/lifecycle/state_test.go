package lifecycle

import (
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

func TestRunStrategies(t *testing.T) {
	for _, test := range []struct {
		strategy v1.VirtualMachineRunStrategy
		phase    v1.VirtualMachineInstancePhase // empty: no guest
		want     action
		why      string
	}{
		{v1.RunStrategyAlways, "", actionStart, "always"},
		{v1.RunStrategyAlways, v1.Running, actionNone, "it runs"},
		{v1.RunStrategyAlways, v1.Succeeded, actionStop, "another takes its place"},
		{v1.RunStrategyAlways, v1.Failed, actionStop, "another takes its place"},
		{v1.RunStrategyRerunOnFailure, "", actionStart, "the first run"},
		{v1.RunStrategyRerunOnFailure, v1.Failed, actionStop, "rerun"},
		{v1.RunStrategyRerunOnFailure, v1.Succeeded, actionNone, "done; the VMI stays as the sign of it"},
		{v1.RunStrategyOnce, "", actionStart, "the one run"},
		{v1.RunStrategyOnce, v1.Failed, actionNone, "one run"},
		{v1.RunStrategyOnce, v1.Succeeded, actionNone, "one run"},
		{v1.RunStrategyHalted, "", actionNone, "halted"},
		{v1.RunStrategyHalted, v1.Running, actionStop, "halted"},
		{v1.RunStrategyManual, "", actionNone, "only by request"},
		{v1.RunStrategyManual, v1.Failed, actionNone, "only by request"},
		{v1.RunStrategyWaitAsReceiver, "", actionNone, "a guest comes by migration"},
	} {
		s := state{strategy: test.strategy, vm: newVM(test.strategy)}
		if test.phase != "" {
			s.vmi = &v1.VirtualMachineInstance{}
			s.vmi.Status.Phase = test.phase
		}
		if got := s.nextAction(); got != test.want {
			t.Errorf("%s with a guest '%s': %d, want %d: %s", test.strategy, test.phase, got, test.want, test.why)
		}
	}
}

// TestGenerations: a guest follows the VM as it is, unless an edit waits for a restart.
func TestGenerations(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	expect := func(why string, observed, desired int64) {
		t.Helper()
		c.reconcileRepeatedly()
		if got := c.vm().Status; got.ObservedGeneration != observed || got.DesiredGeneration != desired {
			t.Errorf("%s: observed %d, desired %d; want %d, %d", why, got.ObservedGeneration, got.DesiredGeneration, observed, desired)
		}
	}
	edit := func(change func(*v1.VirtualMachine)) {
		t.Helper()
		vm := c.vm()
		vm.Generation++ // as the API server does
		change(vm)
		if err := c.Update(t.Context(), vm); err != nil {
			t.Fatal(err)
		}
	}
	expect("a guest was created", 1, 1)
	c.setPhase(v1.Running)
	edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "new" })
	expect("the VM was edited", 1, 2)
	c.shutDownGuest()
	expect("another guest was created", 2, 2)
	c.setPhase(v1.Running)
	edit(func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = new(v1.RunStrategyRerunOnFailure) })
	expect("an edit beside the template waits for no restart", 3, 3)
	edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "newer" })
	expect("an edit that waits", 2, 4)
	edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "new" })
	expect("the edit is taken back", 5, 5)
	for _, forged := range []string{"7", "0", "-1", "two", ""} {
		vmi := c.vmi()
		vmi.Annotations[v1.VirtualMachineGenerationAnnotation] = forged
		if err := c.Update(t.Context(), vmi); err != nil {
			t.Fatal(err)
		}
		expect("the guest says '"+forged+"', which cannot be", 0, 5)
	}
	halted := v1.RunStrategyHalted
	edit(func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = &halted })
	expect("no guest observes anything", 0, 6)
}
