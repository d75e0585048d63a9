package subresource

import (
	"cmp"
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// plan is what a request changes in a VM and its VMI.
type plan struct {
	// strategy is the run strategy to set, Always or Halted; empty for none.
	strategy v1.VirtualMachineRunStrategy
	// requests replace status.stateChangeRequests.
	requests []v1.VirtualMachineStateChangeRequest
	// grace replaces spec.terminationGracePeriodSeconds of the VMI, in seconds.
	grace *int64
}

// manager is the name of this process in managedFields.
const manager = "kiln-apiserver"

// carryOut reads the VM and its VMI, decides a plan for them, and writes it. If another process has written the VM meanwhile, it reads and decides again,
// because the plan must be made from the VM that it changes.
func (a *API) carryOut(ctx context.Context, c call, dry []string,
	decide func(*v1.VirtualMachine, *v1.VirtualMachineInstance) (plan, error)) (reply, error) {
	dry, err := dryRun(dry)
	if err != nil {
		return reply{}, err
	}
	options := client.PatchOptions{DryRun: dry, FieldManager: manager}
	var next plan
	var vmi *v1.VirtualMachineInstance
	var decided error
	err = retry.OnError(retry.DefaultBackoff, apierrors.IsConflict, func() error {
		var vm *v1.VirtualMachine
		if vm, vmi, decided = c.readVMAndVMI(ctx, a.Live); decided != nil {
			return nil
		}
		if next, decided = decide(vm, vmi); decided != nil {
			return nil
		}
		if next.mustWait(vm) {
			decided = vmConflict(vm.Name, underway)
			return nil
		}
		return a.writeVM(ctx, vm, next, options)
	})
	if err = cmp.Or(decided, err); err != nil || next.grace == nil {
		return accepted, err
	}
	return accepted, a.writeGrace(ctx, vmi, *next.grace, options)
}

// writeVM patches the run strategy or the requests of a plan into the VM.
func (a *API) writeVM(ctx context.Context, vm *v1.VirtualMachine, next plan, options client.PatchOptions) error {
	changed := vm.DeepCopy()
	if next.strategy != "" {
		setRunStrategy(changed, next.strategy)
		return a.Live.Patch(ctx, changed, lockedPatch(vm), &options)
	}
	changed.Status.StateChangeRequests = next.requests
	changed.Status.StartFailure = nil // a start by a user does not wait for the back-off
	return a.Live.Status().Patch(ctx, changed, lockedPatch(vm), &client.SubResourcePatchOptions{PatchOptions: options})
}

// writeGrace sets the grace period of a VMI, without an optimistic lock. It comes after the write of the VM: if carryOut decides again, planStop must not
// find the new grace period in the VMI. A guest that is already powering off obeys a shorter one. writeGrace ignores a VMI that does not exist any more.
func (a *API) writeGrace(ctx context.Context, vmi *v1.VirtualMachineInstance, seconds int64, options client.PatchOptions) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": vmi.UID}, "spec": map[string]any{"terminationGracePeriodSeconds": seconds},
	})
	if err != nil {
		return err
	}
	target := &v1.VirtualMachineInstance{}
	target.Namespace, target.Name = vmi.Namespace, vmi.Name
	err = a.Live.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), &options)
	if apierrors.IsConflict(err) { // another VMI has taken its place
		return nil
	}
	return client.IgnoreNotFound(err)
}

// lockedPatch returns a patch that fails with a conflict if the object was written since it was read.
func lockedPatch(read client.Object) client.Patch {
	return client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{})
}

// setRunStrategy sets the run strategy in the field that the owner of the VM uses.
func setRunStrategy(vm *v1.VirtualMachine, strategy v1.VirtualMachineRunStrategy) {
	if vm.Spec.RunStrategy == nil && vm.Spec.Running != nil { //nolint:staticcheck // the owner uses the deprecated field
		vm.Spec.Running = ptr.To(strategy == v1.RunStrategyAlways) //nolint:staticcheck // see above
		return
	}
	vm.Spec.RunStrategy = &strategy
}

// underway is KubeVirt's answer to a second request.
const underway = "unable to complete request: stop/start already underway"

// mustWait reports whether the plan must wait for a request in the VM's status. A stop does not wait: it replaces the request.
func (p plan) mustWait(vm *v1.VirtualMachine) bool {
	stops := len(p.requests) == 1 && p.requests[0].Action == v1.StopRequest
	return len(p.requests) > 0 && !stops && len(vm.Status.StateChangeRequests) > 0
}
