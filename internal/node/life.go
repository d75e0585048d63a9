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

// After the start a VMI's status follows the state of its domain, until the VMI is deleted.

// domainStatus returns the status of the VMI's domain. If another owner has the domain's name, the VMI's domain is gone.
func (n *Node) domainStatus(ctx context.Context, vmi *v1.VirtualMachineInstance) (hypervisor.Status, error) {
	status, err := n.Hypervisor.State(ctx, n.owner(vmi))
	var taken *hypervisor.TakenError
	if errors.As(err, &taken) {
		return hypervisor.Status{Cause: hypervisor.Cause{Reason: taken.Reason, Message: "the domain of this VMI is gone: " + taken.Text}}, nil
	}
	return status, err
}

// watch reports the state of a VMI that was started, what libvirt runs of it, and whether the HostProfiles have changed since.
func (n *Node) watch(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	status, err := n.domainStatus(ctx, vmi)
	if err != nil {
		return ctrl.Result{}, err
	}
	seen := observed{Status: status}
	if status.Active() {
		if seen.policy, err = n.policyChange(ctx, vmi); err != nil {
			return ctrl.Result{}, err
		}
	}
	result, err := n.report(ctx, vmi, seen)
	if err == nil && status.Active() {
		err = n.recordRunning(ctx, vmi)
	}
	return result, err
}

// stop asks the guest to power off, waits for its grace period, and then removes the domain with its side documents. The VMI gets its
// final phase before it loses the finalizer: others wait for that phase, and must see it even if the launcher dies in between.
func (n *Node) stop(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	owner := n.owner(vmi)
	status, err := n.domainStatus(ctx, vmi)
	if err != nil {
		return ctrl.Result{}, err
	}
	if status.Active() {
		if n.stopping.since(vmi.UID) < guest.Grace(vmi) {
			return ctrl.Result{RequeueAfter: time.Second}, n.Hypervisor.Shutdown(ctx, owner)
		}
		if err := n.Hypervisor.Destroy(ctx, owner); err != nil {
			return ctrl.Result{}, err
		}
		status = hypervisor.Status{State: hypervisor.Destroyed, Cause: hypervisor.Cause(condition.CauseStopped)}
	}
	if !vmi.IsFinal() {
		phase, why := finalPhase(vmi, status)
		if err := n.end(ctx, vmi, phase, why); client.IgnoreNotFound(err) != nil {
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
	n.stopping.done(vmi.UID)
	if !controllerutil.RemoveFinalizer(vmi, v1.VirtualMachineInstanceFinalizer) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(n.Update(ctx, vmi))
}

// finalPhase returns the final phase of a deleted VMI, and its cause. As in KubeVirt, a guest that its owner stops has Succeeded.
// A guest that did not power off and was destroyed counts as stopped too.
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

// stopping maps VMIs that are being stopped to the time when this launcher saw their deletion. The deletionTimestamp comes from the clock
// of the API server: measured against it, a guest could lose its grace period, or never be destroyed.
type stopping struct {
	sync.Mutex
	guests map[types.UID]time.Time
}

// since returns for how long a VMI has been stopping; 0 at the first call.
func (s *stopping) since(uid types.UID) time.Duration {
	s.Lock()
	defer s.Unlock()
	begun, known := s.guests[uid]
	if known {
		return time.Since(begun)
	}
	if s.guests == nil {
		s.guests = map[types.UID]time.Time{}
	}
	s.guests[uid] = time.Now()
	return 0
}

func (s *stopping) done(uid types.UID) {
	s.Lock()
	defer s.Unlock()
	delete(s.guests, uid)
}
