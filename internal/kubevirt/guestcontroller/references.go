package guestcontroller

import (
	"context"

	"github.com/kilnvm/kiln/internal/resolve"
	v1 "kubevirt.io/api/core/v1"
)

// SetReferences writes the revisions that a VM is pinned to into the references of its status. virt-controller expands the revisions that
// status.instancetypeRef and status.preferenceRef name, and stores a revision of its own only if they name none. So the guest gets what the VM is pinned to.
// KubeVirt: pkg/instancetype/controller/vm and pkg/instancetype/revision, v1.9.
//
// A matcher without a pin keeps the reference that KubeVirt has written, because the pin will be derived from it. A reference to the pinned content in another
// API version also stays: KubeVirt would convert and store the content again, and fail because that revision exists.
func (*Controller) SetReferences(
	ctx context.Context, resolver resolve.Resolver, vm *v1.VirtualMachine, instancetype, preference *v1.InstancetypeStatusRef,
) error {
	for _, reference := range []struct {
		written **v1.InstancetypeStatusRef
		pinned  *v1.InstancetypeStatusRef
	}{{&vm.Status.InstancetypeRef, instancetype}, {&vm.Status.PreferenceRef, preference}} {
		if !namesRevision(reference.pinned) {
			continue
		}
		if namesRevision(*reference.written) {
			upgraded, err := resolver.IsUpgraded(ctx, vm.Namespace, reference.pinned.ControllerRevisionRef.Name, (*reference.written).ControllerRevisionRef.Name)
			if err != nil {
				return err
			}
			if upgraded {
				continue
			}
		}
		*reference.written = reference.pinned
	}
	return nil
}

// namesRevision reports whether a reference names a revision.
func namesRevision(ref *v1.InstancetypeStatusRef) bool {
	return ref != nil && ref.ControllerRevisionRef != nil
}
