package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// reportActiveVMI reports the state of a VMI that was started, the hardware that libvirt runs, and whether the HostProfiles have changed since the start.
func (n *Node) reportActiveVMI(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	status, err := hypervisor.StartedStatus(ctx, n.Hypervisor, n.owner(vmi))
	if err != nil {
		return ctrl.Result{}, err
	}
	seen := observation{Status: status}
	if status.Active() {
		if seen.policy, err = n.policyCondition(ctx, vmi); err != nil {
			return ctrl.Result{}, err
		}
	}
	result, err := n.reportStatus(ctx, vmi, seen)
	if err == nil && status.Active() {
		err = n.recordRunning(ctx, vmi)
	}
	return result, err
}

// stopVMI asks the guest to power off, destroys the domain at the end of the grace period, and then removes the domain with its side documents. The VMI gets
// its final phase before it loses the finalizer: other controllers wait for the final phase, and must see it even if the launcher dies in between.
func (n *Node) stopVMI(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	owner := n.owner(vmi)
	status, err := hypervisor.StartedStatus(ctx, n.Hypervisor, owner)
	if err != nil {
		return ctrl.Result{}, err
	}
	if status.Active() {
		if n.stopTimes.stoppingFor(vmi.UID) < guest.Grace(vmi) {
			return ctrl.Result{RequeueAfter: time.Second}, n.Hypervisor.Shutdown(ctx, owner)
		}
		if err := n.Hypervisor.Destroy(ctx, owner); err != nil {
			return ctrl.Result{}, err
		}
		status = hypervisor.Status{State: hypervisor.Destroyed, Cause: hypervisor.Cause(condition.CauseStopped)}
	}
	if !vmi.IsFinal() {
		phase, why := finalPhase(vmi, status)
		if err := n.reportEnd(ctx, vmi, phase, why); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	var taken *hypervisor.TakenError
	if err := n.Hypervisor.Remove(ctx, owner); err != nil && !errors.As(err, &taken) {
		return ctrl.Result{}, err
	}
	if err := n.Machine.Forget(vmi); err != nil {
		return ctrl.Result{}, err
	}
	n.stopTimes.forget(vmi.UID)
	if !controllerutil.RemoveFinalizer(vmi, v1.VirtualMachineInstanceFinalizer) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(n.Update(ctx, vmi))
}

// finalPhase returns the final phase of a deleted VMI, and its cause. As in KubeVirt, a guest that its owner stops has Succeeded, even if it did not power off
// and was destroyed.
func finalPhase(vmi *v1.VirtualMachineInstance, status hypervisor.Status) (v1.VirtualMachineInstancePhase, condition.Cause) {
	switch {
	case status.State == hypervisor.PoweredOff:
		return v1.Succeeded, condition.Cause(status.Cause)
	case status.State == hypervisor.Destroyed:
		return v1.Succeeded, condition.CauseStopped
	case status.State == hypervisor.Failed || vmi.Status.Phase == v1.Running:
		return v1.Failed, condition.Cause(status.Cause)
	}
	return v1.Failed, condition.NeverStarted(vmi)
}

// stopTimes maps VMIs that are being stopped to the time at which this launcher saw their deletion. The deletionTimestamp is not used, because it comes from
// the API server's clock: a guest could lose its grace period, or never be destroyed.
type stopTimes struct {
	sync.Mutex
	seenAt map[types.UID]time.Time
}

// stoppingFor returns the time since the first call for a VMI; 0 at the first call.
func (s *stopTimes) stoppingFor(uid types.UID) time.Duration {
	s.Lock()
	defer s.Unlock()
	begun, known := s.seenAt[uid]
	if known {
		return time.Since(begun)
	}
	if s.seenAt == nil {
		s.seenAt = map[types.UID]time.Time{}
	}
	s.seenAt[uid] = time.Now()
	return 0
}

func (s *stopTimes) forget(uid types.UID) {
	s.Lock()
	defer s.Unlock()
	delete(s.seenAt, uid)
}
