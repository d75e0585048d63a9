package subresource

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// machineWith is a VM with a run strategy.
func machineWith(strategy v1.VirtualMachineRunStrategy) *v1.VirtualMachine {
	return &v1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       v1.VirtualMachineSpec{RunStrategy: &strategy, Template: &v1.VirtualMachineInstanceTemplateSpec{}},
	}
}

// instanceIn is its VMI in a phase, nil for none.
func instanceIn(phase v1.VirtualMachineInstancePhase) *v1.VirtualMachineInstance {
	if phase == "" {
		return nil
	}
	return &v1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}, Spec: v1.VirtualMachineInstanceSpec{TerminationGracePeriodSeconds: ptr.To[int64](60)},
		Status: v1.VirtualMachineInstanceStatus{Phase: phase},
	}
}

// TestPlans: what a request means by run strategy and phase. A text that begins with '!' is what the refusal says.
func TestPlans(t *testing.T) {
	uid := types.UID("u")
	ask := func(actions ...v1.StateChangeRequestAction) (list []v1.VirtualMachineStateChangeRequest) {
		for _, action := range actions {
			request := v1.VirtualMachineStateChangeRequest{Action: action}
			if action == v1.StopRequest {
				request.UID = &uid
			}
			list = append(list, request)
		}
		return list
	}
	paused := []v1.VirtualMachineStateChangeRequest{{Action: v1.StartRequest, Data: map[string]string{"paused": "true"}}}
	start := func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (plan, error) {
		return planStart(vm, vmi, false)
	}
	startPaused := func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (plan, error) {
		return planStart(vm, vmi, true)
	}
	stop := func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (plan, error) {
		return planStop(vm, vmi, nil)
	}
	stopWithin := func(grace int64) func(*v1.VirtualMachine, *v1.VirtualMachineInstance) (plan, error) {
		return func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (plan, error) {
			return planStop(vm, vmi, &grace)
		}
	}
	restart := func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (plan, error) {
		return planRestart(vm, vmi, false)
	}
	force := func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (plan, error) {
		return planRestart(vm, vmi, true)
	}
	const (
		always, halted, manual, rerun, once = v1.RunStrategyAlways, v1.RunStrategyHalted, v1.RunStrategyManual, v1.RunStrategyRerunOnFailure, v1.RunStrategyOnce
		receiver                            = v1.RunStrategyWaitAsReceiver
	)
	for _, c := range []struct {
		why      string
		do       func(*v1.VirtualMachine, *v1.VirtualMachineInstance) (plan, error)
		strategy v1.VirtualMachineRunStrategy
		phase    v1.VirtualMachineInstancePhase
		want     plan
		refused  string
	}{
		{"start of a halted VM", start, halted, "", plan{strategy: always}, ""},
		{"start of a halted VM whose VMI has ended", start, halted, v1.Succeeded, plan{strategy: always}, ""},
		{"start while it still powers off", start, halted, v1.Running, plan{}, "already running"},
		{"a paused start of a halted VM is a request: the spec cannot say it", startPaused, halted, "", plan{requests: paused}, ""},
		{"start, Manual", start, manual, "", plan{requests: ask(v1.StartRequest)}, ""},
		{"a VMI without a phase is no guest yet", start, manual, v1.VmPhaseUnset, plan{requests: ask(v1.StartRequest)}, ""},
		{"start, Manual, after an end: the VMI is replaced", start, manual, v1.Failed, plan{requests: ask(v1.StopRequest, v1.StartRequest)}, ""},
		{"paused start, Manual", startPaused, manual, "", plan{requests: paused}, ""},
		{"start, RerunOnFailure, after a shutdown", start, rerun, v1.Succeeded, plan{requests: ask(v1.StopRequest, v1.StartRequest)}, ""},
		{"start, RerunOnFailure, after a failure", start, rerun, v1.Failed, plan{}, "does not support starting VM from failed state"},
		{"start, Always", start, always, "", plan{}, "Always does not support manual start requests"},
		{"start, Once", start, once, "", plan{}, "Once does not support manual start requests"},
		{"start, WaitAsReceiver", start, receiver, "", plan{}, "WaitAsReceiver does not support manual start requests"},

		{"stop, Always", stop, always, v1.Running, plan{strategy: halted}, ""},
		{"stop, Always, without a VMI: it is not to come", stop, always, "", plan{strategy: halted}, ""},
		{"stop, Always, with a grace period", stopWithin(5), always, v1.Running, plan{strategy: halted, grace: ptr.To[int64](5)}, ""},
		{"a VMI that has ended takes no grace period", stopWithin(5), always, v1.Failed, plan{strategy: halted}, ""},
		{"stop, Once", stop, once, v1.Running, plan{strategy: halted}, ""},
		{"stop, Manual", stop, manual, v1.Running, plan{requests: ask(v1.StopRequest)}, ""},
		{"stop, Manual, without a VMI", stop, manual, "", plan{}, "VM is not running"},
		{"stop, RerunOnFailure, after the end", stop, rerun, v1.Succeeded, plan{}, "VM is not running"},
		{"stop, RerunOnFailure", stopWithin(0), rerun, v1.Running, plan{requests: ask(v1.StopRequest), grace: ptr.To[int64](0)}, ""},
		{"stop of what stops already", stop, halted, v1.Running, plan{}, "shorter graceperiod"},
		{"stop of what stops already, longer", stopWithin(60), halted, v1.Running, plan{}, "shorter graceperiod"},
		{"stop of what stops already, sooner", stopWithin(1), halted, v1.Running, plan{requests: ask(v1.StopRequest), grace: ptr.To[int64](1)}, ""},
		{"stop of a VM that is halted", stopWithin(1), halted, "", plan{}, "VM is not running"},
		{"stop, WaitAsReceiver", stop, receiver, "", plan{}, "does not support manual stop requests"},

		{"restart, Always", restart, always, v1.Running, plan{requests: ask(v1.StopRequest, v1.StartRequest)}, ""},
		{"restart, Manual", restart, manual, v1.Running, plan{requests: ask(v1.StopRequest, v1.StartRequest)}, ""},
		{"restart by force", force, rerun, v1.Running, plan{requests: ask(v1.StopRequest, v1.StartRequest), grace: ptr.To[int64](1)}, ""},
		{"restart without a VMI", restart, always, "", plan{}, "VM is not running"},
		{"restart, Halted", restart, halted, v1.Running, plan{}, "Halted does not support manual restart requests"},
		{"restart, Once", restart, once, v1.Running, plan{}, "Once does not support manual restart requests"},
	} {
		got, err := c.do(machineWith(c.strategy), instanceIn(c.phase))
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: error %v, want one with '%s'", c.why, err, c.refused)
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(plan{})); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.why, diff)
		}
	}
}

// TestStartWhileRestored: the guest must not boot from disks that are being replaced.
func TestStartWhileRestored(t *testing.T) {
	vm := machineWith(v1.RunStrategyManual)
	vm.Status.RestoreInProgress = ptr.To("back")
	if next, err := planStart(vm, nil, false); err == nil || !strings.Contains(err.Error(), "'back'") {
		t.Errorf("plan %+v, error %v", next, err)
	}
}

// TestWaits: a second request is refused while the first is there; a stop replaces it.
func TestWaits(t *testing.T) {
	vm := machineWith(v1.RunStrategyManual)
	start := plan{requests: []v1.VirtualMachineStateChangeRequest{{Action: v1.StartRequest}}}
	stop := plan{requests: []v1.VirtualMachineStateChangeRequest{{Action: v1.StopRequest}}}
	restart := plan{requests: append(stop.requests, start.requests...)}
	for _, c := range []struct {
		why     string
		waiting []v1.VirtualMachineStateChangeRequest
		next    plan
		want    bool
	}{
		{"nothing waits", nil, restart, false},
		{"a start waits", start.requests, start, true},
		{"a start waits, and a restart comes", start.requests, restart, true},
		{"a stop replaces a start", start.requests, stop, false},
		{"the run strategy is no request", start.requests, plan{strategy: v1.RunStrategyHalted}, false},
	} {
		vm.Status.StateChangeRequests = c.waiting
		if got := c.next.mustWait(vm); got != c.want {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
}

// TestRunField: a start writes the field that the owner of the VM uses: another one beside it would be refused.
func TestRunField(t *testing.T) {
	old := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Running: ptr.To(false)}} //nolint:staticcheck // the deprecated field counts
	setRunStrategy(old, v1.RunStrategyAlways)
	if diff := cmp.Diff(v1.VirtualMachineSpec{Running: ptr.To(true)}, old.Spec); diff != "" { //nolint:staticcheck // see above
		t.Errorf("running: -want +got\n%s", diff)
	}
	now := machineWith(v1.RunStrategyAlways)
	setRunStrategy(now, v1.RunStrategyHalted)
	if got := *now.Spec.RunStrategy; got != v1.RunStrategyHalted || now.Spec.Running != nil { //nolint:staticcheck // see above
		t.Errorf("runStrategy is '%s', and running %v", got, now.Spec.Running) //nolint:staticcheck // see above
	}
}
