package node

import (
	"context"

	"github.com/kilnvm/kiln/internal/condition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A machine claims a VMI by writing its name into status.nodeName, with the resource version that it read: of two machines one gets a conflict.

// fits reports whether this machine may claim the VMI.
func (n *Node) fits(vmi *v1.VirtualMachineInstance) bool {
	if vmi.Status.Phase != v1.VmPhaseUnset && vmi.Status.Phase != v1.Pending {
		return false
	}
	// Another machine may have an emulator of its architecture.
	if n.facts().Emulators[vmi.Spec.Architecture] == "" {
		return false
	}
	return labels.SelectorFromSet(vmi.Spec.NodeSelector).Matches(labels.Set(n.Labels))
}

// claim writes this machine's name and phase Scheduled. A VMI that another machine claimed at the same time, or that is gone, is no error.
func (n *Node) claim(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	vmi.Status.NodeName = n.Name
	condition.SetPhase(vmi, v1.Scheduled)
	return client.IgnoreNotFound(ignoreConflict(n.Status().Update(ctx, vmi)))
}

// ignoreConflict drops the error of a lost race: another node was faster, or a newer version of the object comes as an event.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// stillClaimed returns errNotClaimed if the VMI is no longer to run here. It reads past the cache, which may lag behind a deletion: a domain that is
// started then would boot only to be shut down, or become a stray if the VMI is gone.
func (n *Node) stillClaimed(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	if !n.holdsLease() {
		return errLeaseLost
	}
	now := &v1.VirtualMachineInstance{}
	err := n.Live.Get(ctx, client.ObjectKeyFromObject(vmi), now)
	switch {
	case apierrors.IsNotFound(err):
		return errNotClaimed
	case err != nil:
		return err
	case now.UID != vmi.UID || !now.DeletionTimestamp.IsZero() || now.Status.NodeName != n.Name:
		return errNotClaimed
	}
	return nil
}
