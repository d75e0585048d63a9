package node

import (
	"context"
	"errors"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hostprofile"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/render"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// start starts the VMI's domain unless it is active, and reports the outcome. If the report of a start was lost, the repeated start finds the
// domain active and touches no file that QEMU has open.
func (n *Node) start(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	status, err := n.Hypervisor.State(ctx, n.owner(vmi))
	if err == nil && status.Startable() {
		status, err = n.boot(ctx, vmi)
	}
	if err != nil {
		return n.refused(ctx, vmi, err)
	}
	return n.report(ctx, vmi, observed{Status: status})
}

// A start is decided by libvirt, not by the VMI's phase: the phase may be older than the domain. Each step is repeatable, because a launcher may die
// after any of them.

// boot binds, renders, records the hardware, and only then defines and starts the domain: no guest may run before its hardware is
// recorded. Each step hands its result to the next one, and none goes back to the VMI. The errors are those that refused knows.
func (n *Node) boot(ctx context.Context, vmi *v1.VirtualMachineInstance) (status hypervisor.Status, err error) {
	hardware, frozen, err := n.hardware(ctx, vmi)
	if err != nil {
		return status, err
	}
	profiles, err := hostprofile.All(ctx, n.Client)
	if err != nil {
		return status, err
	}
	m := render.Machine{VMI: vmi, Frozen: frozen, Defaults: n.Configuration.Now().Frontend.With(hardware.Status.Guest.Frontend), Host: n.facts()}
	bound, errs := n.Machine.Bind(ctx, vmi, m.Host.QEMU)
	if len(errs) > 0 {
		return status, guest.NotBindable(errs)
	}
	m.Bindings = bound.Bindings
	if m.Policy, errs = render.Policy(m, profiles); len(errs) > 0 {
		return status, guest.NotRendered(errs)
	}
	defer n.cpus.release(vmi.UID)
	rendered, err := n.render(ctx, m)
	if err != nil {
		return status, err
	}
	if err := n.saveHardware(ctx, hardware, rendered.Record); err != nil {
		return status, err
	}
	if err := n.stillClaimed(ctx, vmi); err != nil {
		return status, err
	}
	domain := hypervisor.Guest{Owner: n.owner(vmi), Documents: rendered.Documents, Paused: ptr.Deref(vmi.Spec.StartStrategy, "") == v1.StartStrategyPaused}
	// Values of secrets are read last: a start that ends before has neither read nor created one.
	if domain.Values, err = bound.Secrets(rendered.Documents.Secrets); err != nil {
		return status, &guest.Refusal{Reason: v1alpha1.ReasonNotBindable, Message: err.Error()}
	}
	if err := errors.Join(savePolicy(bound, m.Policy), saveFrontend(bound, rendered.Frontend)); err != nil {
		return status, err
	}
	if err := n.Hypervisor.Start(ctx, domain); err != nil {
		return status, guest.NotStarted(err)
	}
	n.warn(ctx, vmi)
	return n.Hypervisor.State(ctx, domain.Owner)
}

// warn names the fields of a VMI that have no effect on a bare machine, in one event of its start.
func (n *Node) warn(ctx context.Context, vmi *v1.VirtualMachineInstance) {
	warnings, err := hostresources.Warnings(vmi)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the fields without effect cannot be named", "reason", err.Error())
	}
	if len(warnings) > 0 {
		n.Events.Eventf(vmi, nil, corev1.EventTypeWarning, v1alpha1.ReasonNoEffect, "Reconcile", "%s", condition.Note(strings.Join(warnings, "; ")))
	}
}
