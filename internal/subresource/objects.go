package subresource

import (
	"context"

	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (c call) objectKey() types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: c.name}
}

// readVM reads the VM of the request.
func (c call) readVM(ctx context.Context, live client.Client) (*v1.VirtualMachine, error) {
	vm := &v1.VirtualMachine{}
	err := live.Get(ctx, c.objectKey(), vm)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(v1.Resource("virtualmachine"), c.name)
	}
	return vm, err
}

// readVMI reads the VMI of the request.
func (c call) readVMI(ctx context.Context, live client.Client) (*v1.VirtualMachineInstance, error) {
	vmi := &v1.VirtualMachineInstance{}
	err := live.Get(ctx, c.objectKey(), vmi)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(v1.Resource("virtualmachineinstance"), c.name)
	}
	return vmi, err
}

// readVMAndVMI reads the VM of the request and its VMI; the VMI is nil if it does not exist. A VMI of this name that the VM does not control is an error.
func (c call) readVMAndVMI(ctx context.Context, live client.Client) (*v1.VirtualMachine, *v1.VirtualMachineInstance, error) {
	vm, err := c.readVM(ctx, live)
	if err != nil {
		return nil, nil, err
	}
	vmi, err := c.readVMI(ctx, live)
	switch {
	case apierrors.IsNotFound(err):
		return vm, nil, nil
	case err != nil:
		return nil, nil, err
	case !metav1.IsControlledBy(vmi, vm):
		return nil, nil, vmConflict(c.name, "the VMI of this name does not belong to the VM: delete it, or give it to the VM")
	}
	return vm, vmi, nil
}

// readRunningVMI reads the VMI of the request, and fails if its guest does not run.
func (c call) readRunningVMI(ctx context.Context, live client.Client) (*v1.VirtualMachineInstance, error) {
	vmi, err := c.readVMI(ctx, live)
	if err == nil && vmi.Status.Phase != v1.Running {
		err = vmiConflict(c.name, "VMI is not running: its phase is '%s'", vmi.Status.Phase)
	}
	return vmi, err
}

// hasCondition reports whether a VMI has a condition with status True.
func hasCondition(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) bool {
	found := condition.Of(vmi, kind)
	return found != nil && found.Status == corev1.ConditionTrue
}
