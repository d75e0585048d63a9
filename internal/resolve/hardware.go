package resolve

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Hardware returns the record of a VM's GuestHardware. It returns nil if there is no GuestHardware, or if it belongs to another guest with the same name. The
// record is read from the API server: a cache would hold the records of all guests, and may be older than the last boot.
func (r Resolver) Hardware(ctx context.Context, vm *v1.VirtualMachine) (*record.Record, error) {
	found := &v1alpha1.GuestHardware{}
	err := r.reader().liveReader().Get(ctx, client.ObjectKeyFromObject(vm), found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading GuestHardware '%s': %w", vm.Name, err)
	case ownership.GuestOf(vm).Ownership(found) != ownership.Own:
		return nil, nil
	}
	return found.Spec.Hardware, record.Check(found.Spec.Hardware)
}
