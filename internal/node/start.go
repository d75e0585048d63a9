package node

import (
	"context"
	"errors"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/render"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refusal is the reason and message of why this machine does not start a VMI, for its owner.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.reason + ": " + r.message }

// start starts the VMI's domain unless it is active. If the report of a start was lost, the repeated start finds the domain active and
// touches no file that QEMU has open.
func (n *Node) start(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	status, err := n.Hypervisor.State(ctx, n.owner(vmi))
	if err == nil && (status.State == hypervisor.Undefined || status.State == hypervisor.Inactive) {
		hardware, missing := n.hardware(ctx, vmi) // an err of its own would hide that of the second State below
		if missing != nil {
			return ctrl.Result{}, missing
		}
		if hardware == nil {
			return n.awaitHardware(ctx, vmi)
		}
		if booted, err := n.boot(ctx, vmi, hardware); err != nil || !booted {
			return n.refused(ctx, vmi, err)
		}
		status, err = n.Hypervisor.State(ctx, n.owner(vmi))
	}
	if err != nil {
		return n.refused(ctx, vmi, err)
	}
	return n.report(ctx, vmi, status)
}

// boot binds, renders, records the hardware, and only then defines and starts the domain: no guest may run before its hardware is
// recorded. It returns false if the VMI is no longer to run here.
func (n *Node) boot(ctx context.Context, vmi *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware) (bool, error) {
	machine, err := n.machine(ctx, vmi, hardware)
	if err != nil {
		return false, err
	}
	defer n.cpus.release(vmi.UID)
	rendered, err := n.render(ctx, machine)
	if err != nil {
		return false, err
	}
	if err := n.saveHardware(ctx, hardware, rendered.Record); err != nil {
		return false, err
	}
	if wanted, err := n.stillClaimed(ctx, vmi); err != nil || !wanted {
		return false, err
	}
	values, err := n.Machine.Secrets(vmi, rendered.Documents.Secrets)
	if err != nil {
		return false, &refusal{v1alpha1.ReasonNotBindable, err.Error()}
	}
	if err := n.savePolicy(vmi, machine.Policy); err != nil {
		return false, err
	}
	strategy := vmi.Spec.StartStrategy
	guest := hypervisor.Guest{Owner: n.owner(vmi), Documents: rendered.Documents, Values: values, Paused: strategy != nil && *strategy == v1.StartStrategyPaused}
	err = n.Hypervisor.Start(ctx, guest)
	var taken *hypervisor.TakenError
	if err != nil && !errors.As(err, &taken) {
		err = &refusal{v1alpha1.ReasonStartFailed, err.Error()}
	}
	return err == nil, err
}

// machine returns what a VMI is rendered from: its record, its bindings to this machine, and the merged policy of the whole start.
func (n *Node) machine(ctx context.Context, vmi *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware) (render.Machine, error) {
	m := render.Machine{VMI: vmi, Defaults: n.Configuration.Now().Frontend, Host: n.facts()}
	profiles, err := Profiles(ctx, n.Client)
	if err != nil {
		return m, err
	}
	if m.Frozen, err = frozen(vmi, hardware); err != nil {
		return m, err
	}
	var errs field.ErrorList
	if m.Bindings, errs = n.Machine.Bind(ctx, vmi, m.Host.QEMU); len(errs) > 0 {
		return m, &refusal{v1alpha1.ReasonNotBindable, condition.Mistakes(errs)}
	}
	if m.Policy, errs = render.Policy(m, profiles); len(errs) > 0 {
		return m, notRendered(errs)
	}
	return m, nil
}

// render renders the documents, and reserves the CPUs of a VMI with dedicatedCpuPlacement.
func (n *Node) render(ctx context.Context, m render.Machine) (rendered render.Result, err error) {
	if dedicated(m.VMI) {
		n.cpus.Lock()
		defer n.cpus.Unlock()
		if m.Bindings.CPUs, err = n.freeCPUs(ctx, m); err != nil {
			return rendered, err
		}
	}
	rendered, errs := render.Domain(m)
	if len(errs) > 0 {
		return rendered, notRendered(errs)
	}
	if dedicated(m.VMI) {
		n.cpus.reserve(m.VMI.UID, hypervisor.Pins(rendered.Documents.Domain.CPUTune))
	}
	return rendered, nil
}

// notRendered returns NotExplicit or NotRenderable, by the errors.
func notRendered(errs field.ErrorList) *refusal {
	if !Explicit(errs) {
		return &refusal{v1alpha1.ReasonNotExplicit, condition.Mistakes(errs)}
	}
	return &refusal{v1alpha1.ReasonNotRenderable, condition.Mistakes(errs)}
}

// stillClaimed reports whether the VMI is still to run here. It reads past the cache, which may lag behind a deletion: a domain that is
// started then would boot only to be shut down, or become a stray if the VMI is gone.
func (n *Node) stillClaimed(ctx context.Context, vmi *v1.VirtualMachineInstance) (bool, error) {
	if !n.holdsLease() {
		return false, errLeaseLost
	}
	now := &v1.VirtualMachineInstance{}
	if err := n.Live.Get(ctx, client.ObjectKeyFromObject(vmi), now); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return now.UID == vmi.UID && now.DeletionTimestamp.IsZero() && now.Status.NodeName == n.Name, nil
}

// retryInterval is the time to the next attempt of a refused start: no event reports that, for example, a missing file has appeared.
const retryInterval = 15 * time.Second

// refused writes a refusal into the VMI's conditions and schedules the next attempt. The VMI stays claimed. Other errors are returned.
func (n *Node) refused(ctx context.Context, vmi *v1.VirtualMachineInstance, err error) (ctrl.Result, error) {
	var why *refusal
	var taken *hypervisor.TakenError
	if errors.As(err, &taken) {
		why = &refusal{taken.Reason, taken.Text}
		if taken.By != nil {
			signal(n.strayInTheWay)
		}
	}
	if why == nil && !errors.As(err, &why) {
		return ctrl.Result{}, err
	}
	setSynchronized(vmi, corev1.ConditionFalse, why.reason, why.message)
	setReady(vmi, corev1.ConditionFalse, hypervisor.Cause{Reason: why.reason})
	return ctrl.Result{RequeueAfter: retryInterval}, n.Status().Update(ctx, vmi)
}
