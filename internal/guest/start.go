package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// retryInterval is the time to the next attempt of a refused start. No event reports that the cause of a refusal is gone, such as an unreachable volume
	// server.
	retryInterval = 15 * time.Second
	// failureInterval is the time to the next attempt if libvirt or the API server does not answer.
	failureInterval = time.Second
	// lostAnswerLimit bounds the search, at a stop, for a domain that an attempt without an answer may have started.
	lostAnswerLimit = 5 * time.Second
)

// errVMINotOfPod is the error of a start whose VMI has not the UID of the GuestPod. Kiln's controller will replace the GuestPod.
var errVMINotOfPod = errors.New("the VMI of this name is not the VMI of the pod")

// startedGuest is a guest whose domain libvirt was asked to start.
type startedGuest struct {
	owner       hypervisor.Owner
	gracePeriod time.Duration
	status      hypervisor.Status
	// macs are the addresses of the domain's network cards. hasAgent is true if the domain has the channel of the guest agent.
	macs     []string
	hasAgent bool
	// credentials reads the accessCredentials for the guest agent; nil if the VMI has none.
	credentials func() (hostresources.Credentials, error)
	// console and display are sockets of QEMU.
	console, display string
	// domain is the domain as given to libvirt, and frontend the guest-visible hardware that it was rendered from.
	domain   hypervisor.Guest
	frontend render.Front
	// changed is signalled when the state of the domain may have changed.
	changed <-chan struct{}
}

// startUntilStarted tries to start the guest until it is started or ctx ends, and reports refusals. The error is ctx.Err().
func (g *Guest) startUntilStarted(ctx context.Context) (startedGuest, error) {
	log := ctrl.LoggerFrom(ctx)
	var tried startedGuest
	for {
		started, err := g.attemptStart(ctx)
		if started.owner != (hypervisor.Owner{}) {
			tried = started
		}
		switch {
		case err == nil:
			return started, nil
		case ctx.Err() != nil:
			return g.findStartedGuest(ctx, tried)
		}
		again := failureInterval
		if why := RefusalOf(err); why != nil {
			again = cmp.Or(g.Retry, retryInterval)
			g.Channel.Report(func(status *v1alpha1.GuestPodStatus) {
				status.Refusal = &v1alpha1.GuestRefusal{Reason: why.Reason, Message: condition.Message(why.Message)}
			})
		}
		log.Info("the guest is not started", "reason", err.Error(), "again", again.String())
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// findStartedGuest returns the guest of an attempt whose answer was lost, if its domain is active: the caller must stop it. Otherwise the error is ctx.Err().
func (g *Guest) findStartedGuest(ctx context.Context, tried startedGuest) (startedGuest, error) {
	if tried.owner == (hypervisor.Owner{}) {
		return startedGuest{}, ctx.Err()
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), lostAnswerLimit)
	defer cancel()
	for within.Err() == nil {
		status, err := hypervisor.StartedStatus(within, g.Hypervisor, tried.owner)
		if err == nil && status.Active() {
			tried.status = status
			return tried, nil
		}
		if err == nil {
			break
		}
		select { // the daemon is restarting
		case <-within.Done():
		case <-time.After(failureInterval / 4):
		}
	}
	return startedGuest{}, ctx.Err()
}

// attemptStart binds the VMI, reports the facts of the host, waits for the hardware that Kiln's controller derives from them, and starts the domain. Each step
// is repeatable. If an error is returned with a startedGuest that has an owner, libvirt was asked to start the domain, and the domain may run.
func (g *Guest) attemptStart(ctx context.Context) (startedGuest, error) {
	host, err := g.hostFacts(ctx) // libvirt probes QEMU while the controller creates the GuestPod
	if err != nil {
		return startedGuest{}, err
	}
	pod, err := g.Channel.awaitPod(ctx, func(*v1alpha1.GuestPod) bool { return true })
	if err != nil {
		return startedGuest{}, err
	}
	vmi, err := g.Channel.readVMI(ctx)
	if err != nil {
		return startedGuest{}, err
	}
	if vmi.UID != pod.Spec.VMIUID {
		return startedGuest{}, errVMINotOfPod
	}
	bound, errs := g.Machine.Bind(ctx, vmi)
	if len(errs) > 0 {
		return startedGuest{}, NotBindable(errs)
	}
	m := render.Machine{VMI: vmi, Host: host, Bindings: bound.Bindings}
	if err := backend.CheckUnboundMemory(vmi, host, m.Bindings); err != nil {
		return startedGuest{}, NotBindable(field.ErrorList{err})
	}
	facts := render.Report(vmi, render.Facts(m))
	g.Channel.Report(func(status *v1alpha1.GuestPodStatus) { status.Facts = facts })
	if pod, err = g.Channel.awaitPod(ctx, func(pod *v1alpha1.GuestPod) bool { return pod.Spec.Hardware != nil }); err != nil {
		return startedGuest{}, err
	}
	front, err := render.ReadFrontend(pod.Spec.Hardware.Frontend)
	if err != nil {
		return startedGuest{}, &Refusal{v1alpha1.ReasonNotRenderable, fmt.Sprintf("GuestPod '%s': spec.hardware.frontend: %v", pod.Name, err)}
	}
	domain, err := g.renderDomain(ctx, pod, renderInput{m, front, bound})
	if err != nil {
		return startedGuest{}, err
	}
	status, err := g.startDomain(ctx, domain)
	started := startedGuest{
		owner: domain.Owner, gracePeriod: Grace(vmi), status: status, domain: domain, frontend: front, console: bound.Serial, display: bound.VNC,
	}
	started.macs, started.hasAgent = domain.Agent()
	if hostresources.NeedAgent(vmi) {
		started.credentials = func() (hostresources.Credentials, error) { return g.Machine.Credentials(vmi) }
	}
	return started, err
}

// hostFacts returns the capabilities of the node as libvirt reports them in the pod. Without KVM, and without Emulate, the error is a refusal.
func (g *Guest) hostFacts(ctx context.Context) (backend.Capabilities, error) {
	if g.Daemon != nil {
		if err := g.Daemon.awaitSocket(ctx); err != nil {
			return backend.Capabilities{}, err
		}
	}
	kvm := hypervisor.KVMAuto
	if g.Emulate {
		kvm = hypervisor.KVMNever
	}
	host, err := g.Hypervisor.Capabilities(ctx, g.NodeName, kvm)
	if err == nil && !g.Emulate && !slices.Contains(host.VirtTypes, "kvm") {
		return host, &Refusal{v1alpha1.ReasonNotRenderable,
			"the pod has no /dev/kvm that QEMU can use; to emulate CPUs instead, the cluster's administrator sets developerConfiguration.useEmulation"}
	}
	return host, err
}

// renderInput is the input of stage 3.
type renderInput struct {
	machine render.Machine
	front   render.Front
	bound   hostresources.Bound
}

// renderDomain renders the domain (stage 3) from the hardware of the GuestPod. Errors are refusals.
func (g *Guest) renderDomain(ctx context.Context, pod *v1alpha1.GuestPod, in renderInput) (guest hypervisor.Guest, err error) {
	m := in.machine
	policy, left := backend.InSession(ptr.Deref(pod.Spec.HostPolicy, v1alpha1.HostPolicy{}))
	if len(left) > 0 {
		ctrl.LoggerFrom(ctx).Info("fields of the HostProfiles have no effect in a pod", "fields", left)
	}
	m.Policy = policy
	documents, errs := render.Documents(m, in.front)
	if len(errs) > 0 {
		return guest, NotRendered(errs)
	}
	owner := hypervisor.Owner{Cluster: pod.Spec.ClusterUID, Namespace: m.VMI.Namespace, Name: m.VMI.Name, UID: m.VMI.UID, Node: pod.Spec.NodeName}
	guest = hypervisor.Guest{Owner: owner, Documents: documents, Paused: ptr.Deref(m.VMI.Spec.StartStrategy, "") == v1.StartStrategyPaused}
	if guest.Values, err = in.bound.Secrets(documents.Secrets); err != nil {
		return guest, &Refusal{v1alpha1.ReasonNotBindable, err.Error()}
	}
	return guest, nil
}

// startDomain starts the domain, unless an earlier attempt whose answer was lost has started it.
func (g *Guest) startDomain(ctx context.Context, guest hypervisor.Guest) (status hypervisor.Status, err error) {
	if status, err = g.Hypervisor.State(ctx, guest.Owner); err != nil || !status.Startable() {
		return status, err
	}
	if err := ctx.Err(); err != nil {
		return status, err // no domain was started, so a stop needs no shutdown
	}
	failed := g.Hypervisor.Start(ctx, guest)
	// The domain may run from here on, and a stop must shut it down: therefore neither the end of ctx nor a daemon that has just died ends the attempt.
	status, err = hypervisor.StartedStatus(context.WithoutCancel(ctx), g.Hypervisor, guest.Owner)
	switch {
	case failed != nil && (err != nil || !status.Active()): // if the domain is active, it was started, and only the answer was lost
		return status, NotStarted(failed)
	case err != nil:
		return hypervisor.Status{State: hypervisor.Running}, nil //nolint:nilerr // followDomain reads the state again
	}
	return status, nil
}
