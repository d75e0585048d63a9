package lifecycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// setRequests writes status.stateChangeRequests, as the aggregated API does.
func (c *testCluster) setRequests(requests ...v1.VirtualMachineStateChangeRequest) {
	c.Helper()
	vm := c.vm()
	vm.Status.StateChangeRequests, vm.Status.StartFailure = requests, nil
	if err := c.Status().Update(c.Context(), vm); err != nil {
		c.Fatal(err)
	}
}

var startRequest = v1.VirtualMachineStateChangeRequest{Action: v1.StartRequest}

func stopRequest(uid types.UID) v1.VirtualMachineStateChangeRequest {
	return v1.VirtualMachineStateChangeRequest{Action: v1.StopRequest, UID: &uid}
}

// noVMI is the phase in test tables of a VM that has no VMI.
const noVMI v1.VirtualMachineInstancePhase = ""

// TestStateChangeRequests: what a request does with each run strategy, and that it is removed. The controller dies once at each step: after its action and
// before its status write.
func TestStateChangeRequests(t *testing.T) {
	const (
		without = "no VMI"
		same    = "the same VMI"
		another = "another VMI"
	)
	stop, restart := []string{"stop"}, []string{"stop", "start"}
	for _, test := range []struct {
		strategy v1.VirtualMachineRunStrategy
		life     v1.VirtualMachineInstancePhase
		requests []string
		want     string
	}{
		{v1.RunStrategyManual, noVMI, nil, without},
		{v1.RunStrategyManual, noVMI, []string{"start"}, another},
		{v1.RunStrategyManual, noVMI, stop, without},
		{v1.RunStrategyManual, v1.Running, nil, same},
		{v1.RunStrategyManual, v1.Running, []string{"start"}, same},
		{v1.RunStrategyManual, v1.Running, stop, without},
		{v1.RunStrategyManual, v1.Running, restart, another},
		{v1.RunStrategyManual, v1.Running, []string{"stop another"}, same},
		{v1.RunStrategyManual, v1.Running, []string{"stop any"}, same},
		{v1.RunStrategyManual, v1.Running, []string{"Explode", "stop"}, without},
		{v1.RunStrategyManual, v1.Succeeded, restart, another},
		{v1.RunStrategyManual, v1.Succeeded, []string{"start"}, another},
		{v1.RunStrategyManual, v1.Failed, nil, same},
		{v1.RunStrategyRerunOnFailure, v1.Running, stop, without},
		{v1.RunStrategyRerunOnFailure, v1.Running, restart, another},
		{v1.RunStrategyRerunOnFailure, v1.Succeeded, nil, same},
		{v1.RunStrategyRerunOnFailure, v1.Succeeded, restart, another},
		{v1.RunStrategyRerunOnFailure, v1.Succeeded, []string{"start"}, another},
		{v1.RunStrategyRerunOnFailure, v1.Failed, nil, another},
		{v1.RunStrategyRerunOnFailure, v1.Failed, stop, without},
		{v1.RunStrategyAlways, v1.Running, stop, another},
		{v1.RunStrategyAlways, v1.Running, restart, another},
		{v1.RunStrategyHalted, noVMI, []string{"start"}, without},
		{v1.RunStrategyOnce, v1.Running, restart, same},
		{v1.RunStrategyOnce, v1.Succeeded, restart, same},
	} {
		for death := range 6 {
			t.Run(fmt.Sprintf("%s %s %v, dies at %d", test.strategy, test.life, test.requests, death), func(t *testing.T) {
				c := newCluster(t, newVM(v1.RunStrategyAlways))
				c.reconcileRepeatedly()
				before := c.vmi()
				c.setPhase(v1.Running)
				c.reconcileRepeatedly()
				c.setRunStrategy(test.strategy)
				if test.strategy != v1.RunStrategyHalted || test.life == noVMI {
					c.reconcileRepeatedly()
				}
				switch test.life {
				case noVMI:
					if err := c.Delete(t.Context(), before); err != nil && test.strategy != v1.RunStrategyHalted {
						t.Fatal(err)
					}
				case v1.Running:
				default:
					c.now = c.now.Add(stableRun) // or a back-off follows
					c.setPhase(test.life)
				}
				var requests []v1.VirtualMachineStateChangeRequest
				for _, request := range test.requests {
					requests = append(requests, map[string]v1.VirtualMachineStateChangeRequest{
						"start": startRequest, "stop": stopRequest(before.UID), "stop another": stopRequest("another"), "stop any": {Action: v1.StopRequest},
					}[request])
					if request == "Explode" {
						requests[len(requests)-1].Action = "Explode"
					}
				}
				c.setRequests(requests...)
				for step := range 12 {
					if step == death {
						c.controller.applyRunStrategy(t.Context(), newState(c.vm(), c.vmi(), c.now))
					}
					c.reconcileOnce()
				}
				got := without
				if now := c.vmi(); now != nil {
					got = another
					if now.UID == before.UID {
						got = same
					}
					if test.life != noVMI && got == another {
						c.setPhase(v1.Running)
						c.reconcileRepeatedly()
					}
				}
				if got != test.want {
					t.Errorf("there is %s, want %s", got, test.want)
				}
				if left := c.vm().Status.StateChangeRequests; len(left) > 0 {
					t.Errorf("requests stay: %+v", left)
				}
			})
		}
	}
}

// TestManyRequests: requests that cannot be met cost one write, however many there are.
func TestManyRequests(t *testing.T) {
	s := newState(newVM(v1.RunStrategyManual), nil, time.Now())
	for range 10_000 {
		s.vm.Status.StateChangeRequests = append(s.vm.Status.StateChangeRequests, stopRequest("another"), v1.VirtualMachineStateChangeRequest{Action: "Explode"})
	}
	s.vm.Status.StateChangeRequests = append(s.vm.Status.StateChangeRequests, startRequest)
	if diff := cmp.Diff([]v1.VirtualMachineStateChangeRequest{startRequest}, s.nextRequests()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRerunOnFailure: a stopped VM stays stopped, and a VM that has never started is started, however often the controller reconciles.
func TestRerunOnFailure(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyRerunOnFailure))
	c.controller.applyRunStrategy(t.Context(), newState(c.vm(), nil, c.now)) // starts it, and dies before the report
	c.deleteObject(c.vmi())
	c.reconcileRepeatedly()
	if c.vmi() == nil {
		t.Fatal("a VM without a status is not started")
	}
	c.setPhase(v1.Running)
	c.reconcileRepeatedly()
	c.deleteObject(c.vmi())
	c.reconcileRepeatedly()
	if c.vmi() != nil {
		t.Error("a VM whose VMI was deleted starts again")
	}
	c.setRequests(startRequest)
	c.reconcileRepeatedly()
	if c.vmi() == nil {
		t.Error("a request does not start it")
	}
	c.setRunStrategy(v1.RunStrategyHalted)
	c.reconcileRepeatedly()
	c.setRunStrategy(v1.RunStrategyRerunOnFailure)
	c.reconcileRepeatedly()
	if c.vmi() == nil {
		t.Error("a VM that was halted does not start with its new run strategy")
	}
}

// TestHaltedInBackOff: setting a VM in a back-off to Halted stops it for good, although a start is requested.
func TestHaltedInBackOff(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyRerunOnFailure))
	c.reconcileRepeatedly()
	c.setPhase(v1.Failed)
	c.reconcileRepeatedly()
	if requests := c.vm().Status.StateChangeRequests; len(requests) != 1 || c.vmi() != nil {
		t.Fatalf("requests %+v, VMI %v: want a VM that waits to be run again", requests, c.vmi() != nil)
	}
	c.setRunStrategy(v1.RunStrategyHalted)
	c.now = c.now.Add(maxBackoff)
	c.reconcileRepeatedly()
	if vm := c.vm(); c.vmi() != nil || *vm.Spec.RunStrategy != v1.RunStrategyHalted || len(vm.Status.StateChangeRequests) > 0 {
		t.Errorf("VMI %v, run strategy %s, requests %+v", c.vmi() != nil, *vm.Spec.RunStrategy, vm.Status.StateChangeRequests)
	}
}

// TestRerunOnFailureWhileStopping: a run strategy that is set while the VMI of the previous one shuts down takes effect when that VMI is gone.
func TestRerunOnFailureWhileStopping(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	c.setPhase(v1.Running)
	c.setFinalizers(v1.VirtualMachineInstanceFinalizer)
	c.setRunStrategy(v1.RunStrategyHalted)
	c.reconcileRepeatedly()
	c.setRunStrategy(v1.RunStrategyRerunOnFailure)
	c.reconcileRepeatedly()
	before := c.vmi()
	c.setFinalizers()
	c.reconcileRepeatedly()
	if now := c.vmi(); before.DeletionTimestamp == nil || now == nil || now.UID == before.UID {
		t.Errorf("was being deleted: %v, VMI %+v", before.DeletionTimestamp != nil, now)
	}
}

// TestStartPaused: the guest of 'virtctl start --paused' starts paused, even if the run strategy must be changed for it, and no later guest does.
func TestStartPaused(t *testing.T) {
	paused := v1.VirtualMachineStateChangeRequest{Action: v1.StartRequest, Data: map[string]string{v1.StartRequestDataPausedKey: v1.StartRequestDataPausedTrue}}
	deprecated := newVM(v1.RunStrategyHalted)
	deprecated.Spec.RunStrategy, deprecated.Spec.Running = nil, ptr.To(false) //nolint:staticcheck // its users are many
	for name, vm := range map[string]*v1.VirtualMachine{"Manual": newVM(v1.RunStrategyManual), "Halted": newVM(v1.RunStrategyHalted), "running": deprecated} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, vm)
			c.reconcileRepeatedly()
			owned := c.vm().Spec
			c.setRequests(paused)
			c.reconcileRepeatedly()
			vmi := c.vmi()
			if vmi == nil || ptr.Deref(vmi.Spec.StartStrategy, "") != v1.StartStrategyPaused {
				t.Fatalf("VMI %+v", vmi)
			}
			switch name {
			case "Halted":
				owned.RunStrategy = ptr.To(v1.RunStrategyAlways)
			case "running":
				owned.Running = ptr.To(true) //nolint:staticcheck // as above
			}
			if diff := cmp.Diff(owned, c.vm().Spec); diff != "" {
				t.Errorf("the VM's spec, -want +got:\n%s", diff)
			}
			c.setPhase(v1.Running)
			c.setRequests(stopRequest(vmi.UID), startRequest)
			c.reconcileRepeatedly()
			c.reconcileRepeatedly()
			if next := c.vmi(); next == nil || next.UID == vmi.UID || next.Spec.StartStrategy != nil {
				t.Errorf("the next VMI is %+v", next)
			}
		})
	}
}

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

// TestNoStartWhileRestored: template, record and claims of a VM may be of different versions while it is restored. It starts when the restore is done.
func TestNoStartWhileRestored(t *testing.T) {
	for _, strategy := range []v1.VirtualMachineRunStrategy{v1.RunStrategyAlways, v1.RunStrategyRerunOnFailure, v1.RunStrategyOnce} {
		vm := newVM(strategy)
		name := "back"
		vm.Status.RestoreInProgress = &name
		c := newCluster(t, vm)
		c.reconcileRepeatedly()
		if c.vmi() != nil || c.vm().Status.PrintableStatus != v1.VirtualMachineStatusStopped {
			t.Errorf("%s: started while it is restored, status '%s'", strategy, c.vm().Status.PrintableStatus)
		}
		done := c.vm()
		done.Status.RestoreInProgress = nil
		if err := c.Status().Update(t.Context(), done); err != nil {
			t.Fatal(err)
		}
		if c.reconcileRepeatedly(); c.vmi() == nil {
			t.Errorf("%s: the VM does not start after the restore", strategy)
		}
	}
}
