package vmrestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stopTarget waits until the target has no VMI, as spec.targetReadinessPolicy says.
type stopTarget struct {
	*operation.Cluster
	// beforeStop are the checks before the restore stops the guest: a restore that fails or waits leaves the guest running.
	beforeStop steps
}

func (t stopTarget) Run(ctx context.Context, s *state) (operation.Result, error) {
	if s.vm == nil {
		return operation.Done(), nil
	}
	if s.vm.DeletionTimestamp != nil {
		return operation.Result{}, waitBecause(v1alpha1.ReasonTargetNotReady, fmt.Sprintf("VirtualMachine '%s' is being deleted", s.vm.Name))
	}
	vmi, err := objects.GetOrNil(ctx, t.Live, client.ObjectKeyFromObject(s.vm), &v1.VirtualMachineInstance{})
	switch {
	case err != nil || vmi == nil:
		return operation.Done(), err
	case s.isWritten() && !s.hasLock(): // it was unlocked and started: only the status of the restore is missing
		return operation.Done(), nil
	case s.isWritten(): // it was started between the read and the lock: the VMI has the spec of before
		return operation.RetryAfter(operation.PollInterval), objects.DeleteSame(ctx, t.Live, vmi)
	}
	text := fmt.Sprintf("VirtualMachineInstance '%s' exists: stop the VM", vmi.Name)
	switch ptr.Deref(s.restore.Spec.TargetReadinessPolicy, api.VirtualMachineRestoreWaitGracePeriodAndFail) {
	case api.VirtualMachineRestoreFailImmediate:
		return operation.Result{}, failBecause(v1alpha1.ReasonTargetNotReady, text)
	case api.VirtualMachineRestoreStopTarget:
		return t.checkAndStop(ctx, s, vmi)
	case api.VirtualMachineRestoreWaitEventually:
		return operation.Result{}, waitBecause(v1alpha1.ReasonTargetNotReady, text)
	}
	const grace = api.DefaultGracePeriod
	if operation.TimeSince(s.restore.Status.Conditions, api.ConditionReady, t.Now()) > grace {
		return operation.Result{}, failBecause(v1alpha1.ReasonTargetNotReady, fmt.Sprintf("%s; it was not stopped within %s", text, grace))
	}
	return operation.Result{}, waitBecause(v1alpha1.ReasonTargetNotReady, fmt.Sprintf("%s within %s", text, grace))
}

func (t stopTarget) checkAndStop(ctx context.Context, s *state, vmi *v1.VirtualMachineInstance) (operation.Result, error) {
	if _, err := t.beforeStop.Run(ctx, s); err != nil {
		return operation.Result{}, err
	}
	if err := t.stopVM(ctx, s, vmi); err != nil {
		return operation.Result{}, err
	}
	return operation.Result{}, waitBecause(v1alpha1.ReasonTargetNotReady, fmt.Sprintf("VirtualMachineInstance '%s' is being stopped", vmi.Name))
}

// stopVM stops a VM as 'virtctl stop' does.
func (t stopTarget) stopVM(ctx context.Context, s *state, vmi *v1.VirtualMachineInstance) error {
	if vmi.DeletionTimestamp != nil {
		return nil
	}
	strategy, err := s.vm.RunStrategy()
	if err != nil {
		return err
	}
	if strategy == v1.RunStrategyManual || strategy == v1.RunStrategyRerunOnFailure {
		requested := slices.ContainsFunc(s.vm.Status.StateChangeRequests, func(request v1.VirtualMachineStateChangeRequest) bool {
			return request.Action == v1.StopRequest && request.UID != nil && *request.UID == vmi.UID
		})
		if requested {
			return nil
		}
		return t.PatchStatus(ctx, s.vm, func() {
			s.vm.Status.StateChangeRequests = []v1.VirtualMachineStateChangeRequest{{Action: v1.StopRequest, UID: &vmi.UID}}
		})
	}
	return t.Patch(ctx, s.vm, func() {
		if s.vm.Spec.Running != nil { //nolint:staticcheck // the owner uses the deprecated field
			s.vm.Spec.Running = new(bool) //nolint:staticcheck // as above
		} else {
			s.vm.Spec.RunStrategy = ptr.To(v1.RunStrategyHalted)
		}
	})
}
