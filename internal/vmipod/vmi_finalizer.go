package vmipod

import (
	"context"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// vmiFinalizer keeps a VMI until its guest has ended.
type vmiFinalizer struct{ *environment }

// addFinalizer adds the finalizer to a VMI without a VM: internal/lifecycle creates the VMIs of VMs with it.
func (f vmiFinalizer) addFinalizer(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	finalized := vmi.DeepCopy()
	controllerutil.AddFinalizer(finalized, v1.VirtualMachineInstanceFinalizer)
	return f.patchVMI(ctx, finalized, vmi)
}

// removeFinalizer removes the finalizer of a VMI in its final phase. If the cache has no pod, the API server is asked first: this process may have created one
// without getting an answer.
func (f vmiFinalizer) removeFinalizer(ctx context.Context, o observed.Objects) (done outcome, err error) {
	if o.Pod == nil {
		pod, err := objects.GetOrNil(ctx, f.Live, observed.PodKey(o.Key), &corev1.Pod{})
		if err != nil {
			return done, err
		}
		if pod != nil && observed.IsOwnedBy(pod, o.VMI) {
			return outcome{after: conflictRetry}, nil
		}
	}
	released := o.VMI.DeepCopy()
	controllerutil.RemoveFinalizer(released, v1.VirtualMachineInstanceFinalizer)
	return done, f.patchVMI(ctx, released, o.VMI)
}
