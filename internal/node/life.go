package node

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hypervisor"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// What becomes of a guest after its start: the VMI follows what libvirt says of the domain, until its owner deletes it.

// resyncInterval is how often an active domain is looked at without an event. libvirt reports each change of its state, and a stream of events that
// was lost is followed by a look at all; but it sends none when somebody takes a domain's mark away, and a HostProfile of a kind that was installed
// after the launcher is not watched.
const resyncInterval = time.Minute

// look asks what has become of the VMI's domain. One that is somebody else's by now is gone.
func (n *Node) look(ctx context.Context, vmi *v1.VirtualMachineInstance) (hypervisor.Status, error) {
	status, err := n.Hypervisor.State(ctx, n.owner(vmi))
	var taken *hypervisor.TakenError
	if errors.As(err, &taken) {
		return hypervisor.Status{Cause: hypervisor.Cause{Reason: taken.Reason, Message: "the guest's domain is gone: " + taken.Text}}, nil
	}
	return status, err
}

// watch looks at a guest that has been started.
func (n *Node) watch(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	status, err := n.look(ctx, vmi)
	if err != nil {
		return ctrl.Result{}, err
	}
	return n.report(ctx, vmi, status)
}

// report writes what libvirt says of a guest into its VMI.
func (n *Node) report(ctx context.Context, vmi *v1.VirtualMachineInstance, status hypervisor.Status) (ctrl.Result, error) {
	switch {
	case status.State == hypervisor.PoweredOff:
		return ctrl.Result{}, n.end(ctx, vmi, v1.Succeeded, status.Cause)
	case !status.Active():
		return ctrl.Result{}, n.end(ctx, vmi, v1.Failed, status.Cause)
	}
	before := vmi.Status.DeepCopy()
	if vmi.Status.Machine == nil {
		machine, err := n.Hypervisor.MachineType(ctx, n.owner(vmi))
		if err != nil {
			return ctrl.Result{}, err
		}
		vmi.Status.Machine = &v1.Machine{Type: machine}
	}
	if vmi.Status.Phase == v1.Running { // before, the guest was started by the policy of now
		if err := n.setPolicyChanged(ctx, vmi); err != nil {
			return ctrl.Result{}, err
		}
	}
	setPhase(vmi, v1.Running)
	setSynchronized(vmi, corev1.ConditionTrue, reasonStarted, "")
	setStanding(vmi, status)
	if equality.Semantic.DeepEqual(*before, vmi.Status) {
		return ctrl.Result{RequeueAfter: resyncInterval}, nil
	}
	return ctrl.Result{RequeueAfter: resyncInterval}, n.Status().Update(ctx, vmi)
}

// end gives a VMI its last phase, and tells its owner why.
func (n *Node) end(ctx context.Context, vmi *v1.VirtualMachineInstance, phase v1.VirtualMachineInstancePhase, why hypervisor.Cause) error {
	setPhase(vmi, phase)
	setReady(vmi, corev1.ConditionFalse, why)
	clearCondition(vmi, v1.VirtualMachineInstancePaused)
	if err := n.Status().Update(ctx, vmi); err != nil {
		return err
	}
	kind := corev1.EventTypeNormal
	if phase == v1.Failed || why == causeStopped {
		kind = corev1.EventTypeWarning
	}
	n.Events.Eventf(vmi, nil, kind, why.Reason, "Reconcile", "%s", condition.Note(why.Message))
	return nil
}

// stop asks the guest to power off, waits for its grace period, and then removes the domain and all that was made for it. The VMI gets
// its last phase before it loses the finalizer: others wait for that phase, and must see it also if the launcher dies in between.
func (n *Node) stop(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	owner := n.owner(vmi)
	status, err := n.look(ctx, vmi)
	if err != nil {
		return ctrl.Result{}, err
	}
	if status.Active() {
		if n.leaving.since(vmi.UID) < grace(vmi) {
			return ctrl.Result{RequeueAfter: time.Second}, n.Hypervisor.Shutdown(ctx, owner)
		}
		if err := n.Hypervisor.Destroy(ctx, owner); err != nil {
			return ctrl.Result{}, err
		}
		status = hypervisor.Status{State: hypervisor.Destroyed, Cause: causeStopped}
	}
	if !vmi.IsFinal() {
		phase, why := last(vmi, status)
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
	n.leaving.done(vmi.UID)
	if !controllerutil.RemoveFinalizer(vmi, v1.VirtualMachineInstanceFinalizer) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(n.Update(ctx, vmi))
}

// last is the phase of a guest that its owner has stopped. One that would not power off and was ended has been stopped all the same.
func last(vmi *v1.VirtualMachineInstance, status hypervisor.Status) (v1.VirtualMachineInstancePhase, hypervisor.Cause) {
	switch {
	case status.State == hypervisor.PoweredOff:
		return v1.Succeeded, status.Cause
	case status.State == hypervisor.Destroyed:
		return v1.Succeeded, causeStopped
	case status.State == hypervisor.Failed || vmi.Status.Phase == v1.Running:
		return v1.Failed, status.Cause
	}
	why := causeNever
	i := slices.IndexFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool {
		return c.Type == v1.VirtualMachineInstanceSynchronized && c.Status == corev1.ConditionFalse
	})
	if i >= 0 {
		why.Message += ": " + vmi.Status.Conditions[i].Message
	}
	return v1.Failed, why
}

// Causes that libvirt has no part in.
var (
	causeNever   = hypervisor.Cause{Reason: "NeverStarted", Message: "the guest was never started"}
	causeStopped = hypervisor.Cause{Reason: "Stopped", Message: "the guest has not powered off within its grace period and was ended"}
)

// defaultGracePeriod is how long a guest that names no period may take to power off.
const defaultGracePeriod = 30 * time.Second

// grace is how long a guest may take to power off. A period of centuries is cut, since a Duration holds 292 years.
func grace(vmi *v1.VirtualMachineInstance) time.Duration {
	seconds := vmi.Spec.TerminationGracePeriodSeconds
	if seconds == nil {
		return defaultGracePeriod
	}
	return time.Duration(min(*seconds, math.MaxInt64/int64(time.Second))) * time.Second
}

// leaving are the guests that are being stopped, since when this launcher has seen it. The clock of the API server, which writes the
// time of the deletion, may be another: compared with it a guest could lose its grace period, or never end.
type leaving struct {
	sync.Mutex
	guests map[types.UID]time.Time
}

// since is how long a guest has been leaving; 0 at the first call.
func (l *leaving) since(uid types.UID) time.Duration {
	l.Lock()
	defer l.Unlock()
	begun, known := l.guests[uid]
	if known {
		return time.Since(begun)
	}
	if l.guests == nil {
		l.guests = map[types.UID]time.Time{}
	}
	l.guests[uid] = time.Now()
	return 0
}

func (l *leaving) done(uid types.UID) {
	l.Lock()
	defer l.Unlock()
	delete(l.guests, uid)
}
