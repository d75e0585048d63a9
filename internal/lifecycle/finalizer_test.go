package lifecycle

import (
	"slices"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

func TestFinalizerWaitsForTheRecord(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	c.claim()
	c.strategy(v1.RunStrategyHalted)
	c.step()
	if c.guest() == nil || !slices.Contains(c.guest().Finalizers, v1alpha1.FinalizerRecord) {
		t.Fatal("a guest that a launcher has claimed went before its hardware was on record")
	}
	if got := c.vm().Status.PrintableStatus; got != v1.VirtualMachineStatusStopping {
		t.Errorf("status %s", got)
	}
	c.frontend(`{"machine":"q35-1"}`)
	c.letGo()
	c.step()
	if c.guest() != nil {
		t.Error("the guest is still there although its hardware is on record")
	}
	records, err := c.controller.records(t.Context(), c.vm())
	if err != nil || len(records) != 1 {
		t.Errorf("records %v, %v", records, err)
	}
	if got := c.vm().Status; got.PrintableStatus != v1.VirtualMachineStatusStopped || got.Created {
		t.Errorf("status %+v", got)
	}
}

// TestGuestThatNeverStarted: a launcher has claimed a guest and cannot start it, so that there is no record of its hardware. It stops when it
// is halted, at whatever line its launcher dies, and another one starts later.
func TestGuestThatNeverStarted(t *testing.T) {
	for _, test := range []struct {
		name, why string
		end       func(*cluster)
		goes      bool
	}{
		{"held", "the launcher may still be about to start it", func(*cluster) {}, false},
		{"said and let go", "what a launcher does", func(c *cluster) { c.phase(v1.Failed); c.letGo() }, true},
		{"let go alone", "the launcher died before it wrote a phase, or is of an earlier release", (*cluster).letGo, true},
		{"said alone", "the launcher died after it wrote the phase", func(c *cluster) { c.phase(v1.Failed) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, machine(v1.RunStrategyAlways))
			c.step()
			c.claim()
			first := c.guest().UID
			c.strategy(v1.RunStrategyHalted)
			c.step()
			test.end(c)
			c.step()
			vmi := c.guest()
			if goes := vmi == nil || !slices.Contains(vmi.Finalizers, v1alpha1.FinalizerRecord); goes != test.goes {
				t.Fatalf("%s: let go is %t, want %t", test.why, goes, test.goes)
			}
			if vmi != nil {
				c.letGo()
			}
			c.strategy(v1.RunStrategyAlways)
			c.step()
			if next := c.guest(); next == nil || next.UID == first {
				t.Errorf("%s: guest %v, want another one", test.why, next)
			}
		})
	}
}

// TestGuestClaimedWhileItGoes: a launcher has claimed a guest, and the guest was deleted before the launcher's finalizer was on it.
func TestGuestClaimedWhileItGoes(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	c.phase(v1.Scheduled)
	c.strategy(v1.RunStrategyHalted)
	c.step()
	if c.guest() != nil {
		t.Error("the guest waits for a record that nobody will write")
	}
}

// claim is a launcher's claim, and its finalizer.
func (c *cluster) claim() {
	c.Helper()
	c.phase(v1.Scheduled)
	vmi := c.guest()
	vmi.Finalizers = append(vmi.Finalizers, v1.VirtualMachineInstanceFinalizer)
	if err := c.Update(c.Context(), vmi); err != nil {
		c.Fatal(err)
	}
}

// letGo takes the launcher's finalizer away.
func (c *cluster) letGo() {
	c.Helper()
	vmi := c.guest()
	vmi.Finalizers = slices.DeleteFunc(vmi.Finalizers, func(f string) bool { return f == v1.VirtualMachineInstanceFinalizer })
	if err := c.Update(c.Context(), vmi); err != nil {
		c.Fatal(err)
	}
}

func TestGuestOfADeletedVM(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	c.phase(v1.Scheduled)
	vmi := c.guest()
	if err := c.Delete(t.Context(), c.vm()); err != nil {
		t.Fatal(err)
	}
	// What the garbage collector does with a guest whose owner is gone.
	if err := c.Delete(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	c.step()
	if c.guest() != nil {
		t.Error("the guest of a VM that is gone is kept for a record that nobody will read")
	}
}
