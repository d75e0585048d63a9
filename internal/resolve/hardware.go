package resolve

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Hardware returns the record of a VM's GuestHardware. It returns nil if there is no GuestHardware, or if it belongs to another guest with the same name. The
// record is read from the API server: a cache would hold the records of all guests, and may be older than the last boot.
func (r Resolver) Hardware(ctx context.Context, vm *v1.VirtualMachine) (*record.Record, error) {
	return hardwareOf(ctx, r.reader().liveReader(), client.ObjectKeyFromObject(vm), ownership.GuestOf(vm))
}

// HardwareOfVMI is Hardware for a VMI that is stored.
func (r Resolver) HardwareOfVMI(ctx context.Context, vmi *v1.VirtualMachineInstance) (*record.Record, error) {
	guest := ownership.Guest{VMI: vmi.UID, Identity: vmi.Annotations[v1alpha1.AnnotationIdentity]}
	if owner := metav1.GetControllerOf(vmi); owner != nil && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind {
		guest.VM = owner.UID
	}
	return hardwareOf(ctx, r.reader().liveReader(), client.ObjectKeyFromObject(vmi), guest)
}

func hardwareOf(ctx context.Context, live client.Reader, key client.ObjectKey, guest ownership.Guest) (*record.Record, error) {
	found := &v1alpha1.GuestHardware{}
	err := live.Get(ctx, key, found)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading GuestHardware '%s': %w", key.Name, err)
	case guest.Ownership(found) != ownership.Own:
		return nil, nil
	}
	return found.Spec.Hardware, record.Check(found.Spec.Hardware)
}
