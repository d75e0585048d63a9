package subresource

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// start, stop and restart depend on the run strategy. With Always, Once and Halted they change the spec, which says whether the VM runs. With Manual and
// RerunOnFailure they add a request for the controller to status.stateChangeRequests. KubeVirt's virt-api has the same rules.

func (a *API) startVM(ctx context.Context, c call) (reply, error) {
	options := &v1.StartOptions{}
	if err := c.decodeBody(options); err != nil {
		return reply{}, err
	}
	return a.carryOut(ctx, c, options.DryRun, func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (plan, error) {
		return planStart(vm, vmi, options.Paused)
	})
}

func (a *API) stopVM(ctx context.Context, c call) (reply, error) {
	options := &v1.StopOptions{}
	if err := c.decodeBody(options); err != nil {
		return reply{}, err
	}
	if at := field.NewPath("gracePeriod"); ptr.Deref(options.GracePeriod, 0) < 0 {
		return reply{}, apierrors.NewBadRequest(field.Invalid(at, *options.GracePeriod, "must not be negative").Error())
	}
	return a.carryOut(ctx, c, options.DryRun, func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (plan, error) {
		return planStop(vm, vmi, options.GracePeriod)
	})
}

func (a *API) restartVM(ctx context.Context, c call) (reply, error) {
	options := &v1.RestartOptions{}
	if err := c.decodeBody(options); err != nil {
		return reply{}, err
	}
	at := field.NewPath("gracePeriodSeconds")
	switch grace := ptr.Deref(options.GracePeriodSeconds, 0); {
	case grace < 0:
		return reply{}, apierrors.NewBadRequest(field.Invalid(at, grace, "must not be negative").Error())
	case grace > 0:
		return reply{}, apierrors.NewBadRequest(field.Invalid(at, grace, "only 0 is supported, which forces the restart").Error())
	}
	return a.carryOut(ctx, c, options.DryRun, func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (plan, error) {
		return planRestart(vm, vmi, options.GracePeriodSeconds != nil)
	})
}

// planStart decides a start. A paused start of a Halted VM is a request, too, because the spec has no field for it; the controller changes the run strategy.
func planStart(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, paused bool) (plan, error) {
	strategy, err := vm.RunStrategy()
	if err != nil {
		return plan{}, vmConflict(vm.Name, "%w", err)
	}
	if vmi != nil && !vmi.IsFinal() && vmi.Status.Phase != v1.Unknown && vmi.Status.Phase != v1.VmPhaseUnset {
		return plan{}, vmConflict(vm.Name, "VM is already running")
	}
	if restore := vm.Status.RestoreInProgress; restore != nil {
		return plan{}, vmConflict(vm.Name, "VM is being restored by VirtualMachineRestore '%s': it can be started afterwards", *restore)
	}
	request := v1.VirtualMachineStateChangeRequest{Action: v1.StartRequest}
	if paused {
		request.Data = map[string]string{v1.StartRequestDataPausedKey: v1.StartRequestDataPausedTrue}
	}
	switch strategy {
	case v1.RunStrategyHalted:
		if paused && !startsPaused(vm) {
			return plan{requests: []v1.VirtualMachineStateChangeRequest{request}}, nil
		}
		return plan{strategy: v1.RunStrategyAlways}, nil
	case v1.RunStrategyManual, v1.RunStrategyRerunOnFailure:
		switch {
		case vmi == nil || !vmi.IsFinal():
			return plan{requests: []v1.VirtualMachineStateChangeRequest{request}}, nil
		case strategy == v1.RunStrategyRerunOnFailure && vmi.Status.Phase == v1.Failed:
			return plan{}, vmConflict(vm.Name, "%s does not support starting VM from failed state: it is started again by itself", strategy)
		}
		ended := v1.VirtualMachineStateChangeRequest{Action: v1.StopRequest, UID: &vmi.UID}
		return plan{requests: []v1.VirtualMachineStateChangeRequest{ended, request}}, nil
	}
	return plan{}, vmConflict(vm.Name, "%s does not support manual start requests", strategy)
}

// startsPaused reports whether the template starts the guest paused.
func startsPaused(vm *v1.VirtualMachine) bool {
	return vm.Spec.Template != nil && ptr.Deref(vm.Spec.Template.Spec.StartStrategy, "") == v1.StartStrategyPaused
}

// planStop decides a stop. grace replaces the grace period of the VMI, in seconds. A Halted VM that is still powering off accepts only a shorter one.
func planStop(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, grace *int64) (plan, error) {
	strategy, err := vm.RunStrategy()
	if err != nil {
		return plan{}, vmConflict(vm.Name, "%w", err)
	}
	runs := vmi != nil && !vmi.IsFinal()
	next := plan{}
	if runs {
		next.grace = grace
	}
	switch strategy {
	case v1.RunStrategyAlways, v1.RunStrategyOnce:
		next.strategy = v1.RunStrategyHalted
		return next, nil
	case v1.RunStrategyHalted, v1.RunStrategyManual, v1.RunStrategyRerunOnFailure:
		if !runs {
			return plan{}, vmConflict(vm.Name, "VM is not running")
		}
		if strategy == v1.RunStrategyHalted && (grace == nil || *grace >= ptr.Deref(vmi.Spec.TerminationGracePeriodSeconds, v1.DefaultGracePeriodSeconds)) {
			return plan{}, vmConflict(vm.Name, "%s only supports manual stop requests with a shorter graceperiod", strategy)
		}
		next.requests = []v1.VirtualMachineStateChangeRequest{{Action: v1.StopRequest, UID: &vmi.UID}}
		return next, nil
	}
	return plan{}, vmConflict(vm.Name, "%s does not support manual stop requests", strategy)
}

// forcedGrace is the grace period of a forced restart, in seconds, as in KubeVirt.
const forcedGrace = 1

// planRestart decides a restart.
func planRestart(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, force bool) (plan, error) { //nolint:revive // a field of the request
	strategy, err := vm.RunStrategy()
	if err != nil {
		return plan{}, vmConflict(vm.Name, "%w", err)
	}
	switch strategy {
	case v1.RunStrategyAlways, v1.RunStrategyManual, v1.RunStrategyRerunOnFailure:
	default:
		return plan{}, vmConflict(vm.Name, "run strategy %s does not support manual restart requests", strategy)
	}
	if vmi == nil {
		return plan{}, vmConflict(vm.Name, "VM is not running")
	}
	next := plan{requests: []v1.VirtualMachineStateChangeRequest{{Action: v1.StopRequest, UID: &vmi.UID}, {Action: v1.StartRequest}}}
	if force && !vmi.IsFinal() {
		next.grace = ptr.To[int64](forcedGrace)
	}
	return next, nil
}
