package subresource

import (
	"context"

	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

func (c call) key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: c.name}
}

// machine reads a VM.
func (a *API) machine(ctx context.Context, c call) (*v1.VirtualMachine, error) {
	vm := &v1.VirtualMachine{}
	err := a.Live.Get(ctx, c.key(), vm)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(v1.Resource("virtualmachine"), c.name)
	}
	return vm, err
}

// instance reads a VMI.
func (a *API) instance(ctx context.Context, c call) (*v1.VirtualMachineInstance, error) {
	vmi := &v1.VirtualMachineInstance{}
	err := a.Live.Get(ctx, c.key(), vmi)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(v1.Resource("virtualmachineinstance"), c.name)
	}
	return vmi, err
}

// both reads a VM and its VMI, nil without one. A VMI of the name that is not the VM's own is none of its business, and no reason to do anything to it.
func (a *API) both(ctx context.Context, c call) (*v1.VirtualMachine, *v1.VirtualMachineInstance, error) {
	vm, err := a.machine(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	vmi, err := a.instance(ctx, c)
	switch {
	case apierrors.IsNotFound(err):
		return vm, nil, nil
	case err != nil:
		return nil, nil, err
	case !metav1.IsControlledBy(vmi, vm):
		return nil, nil, conflict(c.name, "the VMI of this name does not belong to the VM: delete it, or give it to the VM")
	}
	return vm, vmi, nil
}

// running reads a VMI whose guest runs.
func (a *API) running(ctx context.Context, c call) (*v1.VirtualMachineInstance, error) {
	vmi, err := a.instance(ctx, c)
	if err == nil && vmi.Status.Phase != v1.Running {
		err = guestConflict(c.name, "VMI is not running: its phase is '%s'", vmi.Status.Phase)
	}
	return vmi, err
}

// holds reports whether a VMI has a condition with status True.
func holds(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) bool {
	found := condition.Of(vmi, kind)
	return found != nil && found.Status == corev1.ConditionTrue
}
