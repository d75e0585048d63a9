package lifecycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// arriving are new Halted VMs, as many as are asked for, at a time.
func arriving(n int, at time.Time) (all []*state) {
	for i := range n {
		vm := machine(v1.RunStrategyHalted)
		vm.Name = fmt.Sprintf("vm-%d-%d", at.Unix(), i)
		all = append(all, newState(vm, nil, at))
	}
	return all
}

// TestStormOfNewVMs: the first statuses are written at once. Those that follow wait until two seconds have passed without another one.
func TestStormOfNewVMs(t *testing.T) {
	var s storm
	begun := time.Now()
	vms := arriving(statusBurst+30, begun)
	for i, vm := range vms {
		if d := s.delay(vm); (d > 0) != (i >= statusBurst) {
			t.Fatalf("VM %d waits %s", i, d)
		}
	}
	waiting := vms[statusBurst]
	later := func(after time.Duration) time.Duration {
		waiting.now = begun.Add(after)
		return s.delay(waiting)
	}
	if d := later(stormEnd - time.Millisecond); d == 0 {
		t.Error("the storm has ended before its time")
	}
	for second := range maxStatusDelay / time.Second {
		for _, vm := range arriving(statusBurst, begun.Add(second*time.Second)) {
			s.delay(vm)
		}
		if d := later(second * time.Second); d == 0 || d > lookAgain {
			t.Fatalf("after %d s of a storm the status waits %s", second, d)
		}
	}
	if d := later(maxStatusDelay); d != 0 {
		t.Errorf("after %s the status waits %s", maxStatusDelay, d)
	}
	if d := later(maxStatusDelay); d != 0 {
		t.Errorf("a write that has failed waits %s", d)
	}
	waiting = vms[statusBurst+1]
	if d := later(maxStatusDelay + stormEnd); d != 0 {
		t.Errorf("after the storm a status waits %s", d)
	}
}

// TestStormForgets: nothing is kept of VMs that have a status or are gone.
func TestStormForgets(t *testing.T) {
	c := newCluster(t)
	storm := &c.controller.storm
	for i, vm := range arriving(statusBurst+2, time.Now()) {
		storm.delay(vm)
		if i == statusBurst {
			vm.vm.Status.PrintableStatus = v1.VirtualMachineStatusStopped
			storm.delay(vm)
		}
	}
	if len(storm.delayed) != 1 {
		t.Fatalf("%d statuses wait, want that of the last VM", len(storm.delayed))
	}
	for key := range storm.delayed { // it is not in the cluster
		if _, err := c.controller.reconcile(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if len(storm.delayed) != 0 {
		t.Errorf("%d statuses wait", len(storm.delayed))
	}
}

// TestEventsInAStorm: a new VM that has nothing to do but its first status is reconciled after the storm, and any other VM at once.
func TestEventsInAStorm(t *testing.T) {
	begun := time.Now()
	events := &vmEvents{storm: &storm{}, now: func() time.Time { return begun }}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	arrives := func(vm *v1.VirtualMachine, initial bool) (atOnce bool) {
		before := queue.Len()
		events.Create(t.Context(), event.CreateEvent{Object: vm, IsInInitialList: initial}, queue)
		return queue.Len() > before
	}
	pinned := func(i int) *v1.VirtualMachine {
		vm := machine(v1.RunStrategyHalted)
		vm.Name, vm.Annotations = fmt.Sprint("vm-", i), map[string]string{v1alpha1.AnnotationPins: "{}"}
		return vm
	}
	for i := range statusBurst {
		vm := pinned(i)
		if !arrives(vm, false) {
			t.Fatalf("VM %d is not reconciled at once", i)
		}
		if d := events.storm.delay(newState(vm, nil, begun)); d > 0 { // its reconcile
			t.Fatalf("the status of VM %d waits %s", i, d)
		}
	}
	late := pinned(statusBurst)
	for range 2 { // two controllers have the event
		if arrives(late, false) {
			t.Error("a VM is reconciled in a storm")
		}
	}
	if d := events.storm.delay(newState(late, nil, begun.Add(lookAgain))); d > 0 {
		t.Errorf("after the storm its status waits %s", d)
	}
	for why, change := range map[string]func(*v1.VirtualMachine){
		"that admission has not pinned": func(vm *v1.VirtualMachine) { vm.Annotations = nil },
		"that is to run":                func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = new(v1.RunStrategyAlways) },
		"that is asked to start paused": func(vm *v1.VirtualMachine) {
			vm.Status.StateChangeRequests = []v1.VirtualMachineStateChangeRequest{
				{Action: v1.StartRequest, Data: map[string]string{v1.StartRequestDataPausedKey: v1.StartRequestDataPausedTrue}},
			}
		},
		"with a status": func(vm *v1.VirtualMachine) { vm.Status.PrintableStatus = v1.VirtualMachineStatusStopped },
	} {
		vm := pinned(2000)
		vm.Namespace = why // another key than those before
		if change(vm); !arrives(vm, false) {
			t.Errorf("a VM %s waits", why)
		}
	}
	if !arrives(pinned(1000), true) {
		t.Error("a VM of the first list waits")
	}
}

// TestNoDelayInAStorm: what a user waits for is reported at once.
func TestNoDelayInAStorm(t *testing.T) {
	var s storm
	for _, vm := range arriving(statusBurst+5, time.Now()) {
		s.delay(vm)
	}
	for name, change := range map[string]func(*state){
		"a VM that starts":       func(s *state) { s.strategy = v1.RunStrategyAlways },
		"a VM with a VMI":        func(s *state) { s.vmi = &v1.VirtualMachineInstance{} },
		"a VM that is deleted":   func(s *state) { s.vm.DeletionTimestamp = &metav1.Time{} },
		"a VM that cannot start": func(s *state) { s.failure = &failure{} },
		"a VM with a status":     func(s *state) { s.vm.Status.PrintableStatus = v1.VirtualMachineStatusStopped },
	} {
		vm := arriving(1, time.Now().Add(time.Millisecond))[0]
		change(vm)
		if d := s.delay(vm); d != 0 {
			t.Errorf("%s waits %s", name, d)
		}
	}
}
