package node

import (
	"context"

	"github.com/kilnvm/kiln/internal/condition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A machine claims a VMI by writing its name into status.nodeName with the resource version that it read: if two machines claim a VMI, one gets a conflict.

// canClaim reports whether the VMI is unstarted, and this machine has an emulator for its architecture and the labels of its nodeSelector.
func (n *Node) canClaim(vmi *v1.VirtualMachineInstance) bool {
	if vmi.Status.Phase != v1.VmPhaseUnset && vmi.Status.Phase != v1.Pending {
		return false
	}
	// Another machine may have an emulator of its architecture.
	if n.hostFacts().Emulators[vmi.Spec.Architecture] == "" {
		return false
	}
	return labels.SelectorFromSet(vmi.Spec.NodeSelector).Matches(labels.Set(n.Labels))
}

// claimVMI writes this machine's name and phase Scheduled. It returns nil if another machine claimed the VMI at the same time, or the VMI is gone.
func (n *Node) claimVMI(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	vmi.Status.NodeName = n.Name
	condition.SetPhase(vmi, v1.Scheduled)
	return client.IgnoreNotFound(ignoreConflict(n.Status().Update(ctx, vmi)))
}

// ignoreConflict returns nil for a conflict: another node was faster, or the newer version of the object follows as an event.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// checkStillClaimed returns errNotClaimed if this machine must no longer run the VMI. It reads past the cache, which may lag behind a deletion: a domain
// started after the deletion would boot only to be shut down, or become a stray if the VMI is gone.
func (n *Node) checkStillClaimed(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
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
