package lifecycle

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/pipeline"
	v1 "kubevirt.io/api/core/v1"
)

func TestRecordedHardwareReturns(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	for boot, record := range []string{`{"machine":"q35-1"}`, `{"machine":"q35-1"}`, `{"machine":"q35-2"}`, `{"machine":"q35-3"}`} {
		c.frontend(record)
		c.phase(v1.Running)
		// The process restarts: what it remembers is only a shortcut.
		c.controller.recorded.forget(key)
		c.step()
		c.phase(v1.Succeeded)
		c.step()
		if got := c.guest().Annotations[pipeline.AnnotationFrontend]; got != record {
			t.Errorf("boot %d: the next guest is given '%s', want '%s'", boot, got, record)
		}
	}
	records, err := c.controller.records(t.Context(), c.vm())
	if err != nil || len(records) != kept || string(records[0].Data.Raw) != `{"machine":"q35-3"}` || string(records[1].Data.Raw) != `{"machine":"q35-2"}` {
		t.Errorf("records %v, %v; want the newest two of three", records, err)
	}
}

func TestLatestHardwareIsDerivedAfresh(t *testing.T) {
	vm := machine(v1.RunStrategyAlways)
	vm.Annotations = map[string]string{pipeline.AnnotationHardware: "latest"}
	c := newCluster(t, vm)
	c.step()
	c.frontend(`{"machine":"q35-1"}`)
	c.phase(v1.Succeeded)
	c.step()
	if got, found := c.guest().Annotations[pipeline.AnnotationFrontend]; found {
		t.Errorf("the guest is given '%s' although its owner wants the latest hardware", got)
	}
}

func TestFinalizerWaitsForTheRecord(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	c.phase(v1.Scheduled)
	c.strategy(v1.RunStrategyHalted)
	c.step()
	if c.guest() == nil {
		t.Fatal("a guest that a launcher has claimed went before its hardware was on record")
	}
	if got := c.vm().Status.PrintableStatus; got != v1.VirtualMachineStatusStopping {
		t.Errorf("status %s", got)
	}
	c.frontend(`{"machine":"q35-1"}`)
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
