package node

import (
	"context"
	"errors"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hostprofile"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/baremachine"
	"github.com/kilnvm/kiln/pkg/render"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// startVMI starts the VMI's domain unless it is active, and reports the result. If the report of a start was lost, the repeated start finds the domain active,
// and does not touch files that QEMU has open.
func (n *Node) startVMI(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	status, err := n.Hypervisor.State(ctx, n.owner(vmi))
	if err == nil && status.Startable() {
		status, err = n.startDomain(ctx, vmi)
	}
	if err != nil {
		return n.reportRefusal(ctx, vmi, err)
	}
	return n.reportStatus(ctx, vmi, observation{Status: status})
}

// libvirt's state decides whether a domain is started, not the VMI's phase, which may be older than the domain. Each step is repeatable, because a launcher may
// die after any step.

// startDomain binds and renders the VMI, records its hardware, and only then starts the domain: a guest may not run before its hardware is recorded. Its errors
// are handled by reportRefusal.
func (n *Node) startDomain(ctx context.Context, vmi *v1.VirtualMachineInstance) (status hypervisor.Status, err error) {
	hardware, frozen, err := n.assignedHardware(ctx, vmi)
	if err != nil {
		return status, err
	}
	profiles, err := hostprofile.All(ctx, n.Client)
	if err != nil {
		return status, err
	}
	m := render.Machine{VMI: vmi, Frozen: frozen, Defaults: n.Configuration.Now().Frontend.With(hardware.Status.Guest.Frontend), Host: n.hostFacts()}
	bound, errs := n.Machine.Bind(ctx, vmi, m.Host.QEMU)
	if len(errs) > 0 {
		return status, guest.NotBindable(errs)
	}
	m.Bindings = bound.Bindings
	if m.Policy, errs = render.Policy(m, profiles); len(errs) > 0 {
		return status, guest.NotRendered(errs)
	}
	defer n.cpuReservations.release(vmi.UID)
	rendered, err := n.renderDomain(ctx, m)
	if err != nil {
		return status, err
	}
	if err := n.saveHardware(ctx, hardware, rendered.Record); err != nil {
		return status, err
	}
	if err := n.checkStillClaimed(ctx, vmi); err != nil {
		return status, err
	}
	domain := hypervisor.Guest{Owner: n.owner(vmi), Documents: rendered.Documents, Paused: ptr.Deref(vmi.Spec.StartStrategy, "") == v1.StartStrategyPaused}
	// Values of secrets are read last, so that a start that fails before neither reads nor creates one.
	if domain.Values, err = bound.Secrets(rendered.Documents.Secrets); err != nil {
		return status, &guest.Refusal{Reason: v1alpha1.ReasonNotBindable, Message: err.Error()}
	}
	if err := errors.Join(savePolicy(bound, m.Policy), saveFrontend(bound, rendered.Frontend)); err != nil {
		return status, err
	}
	if err := n.Hypervisor.Start(ctx, domain); err != nil {
		return status, guest.NotStarted(err)
	}
	n.warnNoEffect(vmi)
	return n.Hypervisor.State(ctx, domain.Owner)
}

// warnNoEffect records one event that names the fields of a VMI that have no effect on a bare machine.
func (n *Node) warnNoEffect(vmi *v1.VirtualMachineInstance) {
	if warnings := baremachine.WarningsOf(vmi); len(warnings) > 0 {
		n.Events.Eventf(vmi, nil, corev1.EventTypeWarning, v1alpha1.ReasonNoEffect, "Reconcile", "%s", condition.Note(strings.Join(warnings, "; ")))
	}
}

// Errors of a start that are not reported to the VMI's owner.
var (
	// errHardwareAwaited is the error of a start that the controller's next update of the GuestHardware causes again.
	errHardwareAwaited = errors.New("the controller has not named this VMI in its GuestHardware yet")
	// errNotClaimed is the error of a start whose VMI was deleted, or claimed by another machine, in the meantime.
	errNotClaimed = errors.New("the VMI is no longer to run on this machine")
)
