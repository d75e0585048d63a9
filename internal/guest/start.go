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
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// retryInterval is the time to the next attempt of a refused start: no event reports that, for example, a server of a volume answers again.
	retryInterval = 15 * time.Second
	// failureInterval is the time to the next attempt after an error that is not the guest's: libvirt or the API server does not answer.
	failureInterval = time.Second
	// unseenLimit bounds the question at a stop whether an attempt has started the guest.
	unseenLimit = 5 * time.Second
)

// errNotOurs is the error of a start whose VMI is not the one that the GuestPod names, which Kiln's controller will change.
var errNotOurs = errors.New("the VMI of this name is not that of the pod")

// run is a guest that was started.
type run struct {
	owner  hypervisor.Owner
	grace  time.Duration
	status hypervisor.Status
	// macs are the addresses of the domain's network cards. hasAgent: it has the channel of the guest agent.
	macs     []string
	hasAgent bool
	// console and display are sockets of QEMU.
	console, display string
	// guest is what libvirt was given, and front the hardware that it was made of.
	guest hypervisor.Guest
	front render.Front
	// changed is signalled when the state of the domain may have changed.
	changed <-chan struct{}
}

// start tries to start the guest until it is started or ctx ends, and reports why it is not. The error is that of ctx.
func (g *Guest) start(ctx context.Context) (run, error) {
	log := ctrl.LoggerFrom(ctx)
	var tried run
	for {
		started, err := g.attempt(ctx)
		if started.owner != (hypervisor.Owner{}) {
			tried = started
		}
		switch {
		case err == nil:
			return started, nil
		case ctx.Err() != nil:
			return g.startedUnseen(ctx, tried)
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

// startedUnseen returns the guest of an attempt whose answer was lost, if it runs: it is to be stopped like any other. Else the error is that of ctx.
func (g *Guest) startedUnseen(ctx context.Context, tried run) (run, error) {
	if tried.owner == (hypervisor.Owner{}) {
		return run{}, ctx.Err()
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), unseenLimit)
	defer cancel()
	for within.Err() == nil {
		status, err := g.state(within, tried.owner)
		if err == nil && status.Active() {
			tried.status = status
			return tried, nil
		}
		if err == nil {
			break
		}
		select { // the daemon is being restarted
		case <-within.Done():
		case <-time.After(failureInterval / 4):
		}
	}
	return run{}, ctx.Err()
}

// attempt binds, reports the facts of the host, waits for the hardware that Kiln's controller makes of them, and starts the domain. Each step is repeatable.
// With an error the run has an owner if libvirt was asked to start the domain: it may run.
func (g *Guest) attempt(ctx context.Context) (run, error) {
	host, err := g.host(ctx) // libvirt asks QEMU what it can do, while the controller makes the GuestPod
	if err != nil {
		return run{}, err
	}
	pod, err := g.Channel.await(ctx, func(*v1alpha1.GuestPod) bool { return true })
	if err != nil {
		return run{}, err
	}
	vmi, err := g.Channel.vmi(ctx)
	if err != nil {
		return run{}, err
	}
	if vmi.UID != pod.Spec.VMIUID {
		return run{}, errNotOurs
	}
	bound, errs := g.Machine.Bind(ctx, vmi)
	if len(errs) > 0 {
		return run{}, NotBindable(errs)
	}
	m := render.Machine{VMI: vmi, Host: host, Bindings: bound.Bindings}
	facts := render.Report(vmi, render.Facts(m))
	g.Channel.Report(func(status *v1alpha1.GuestPodStatus) { status.Facts = facts })
	if pod, err = g.Channel.await(ctx, func(pod *v1alpha1.GuestPod) bool { return pod.Spec.Hardware != nil }); err != nil {
		return run{}, err
	}
	front, err := render.ReadFrontend(pod.Spec.Hardware.Frontend)
	if err != nil {
		return run{}, &Refusal{v1alpha1.ReasonNotRenderable, fmt.Sprintf("GuestPod '%s': spec.hardware.frontend: %v", pod.Name, err)}
	}
	domain, err := g.document(ctx, pod, stageThree{m, front, bound})
	if err != nil {
		return run{}, err
	}
	status, err := g.boot(ctx, domain)
	started := run{
		owner: domain.Owner, grace: Grace(vmi), status: status, guest: domain, front: front, console: bound.Serial, display: bound.VNC,
	}
	started.macs, started.hasAgent = domain.Agent()
	return started, err
}

// host returns the facts of the node as far as the pod sees them.
func (g *Guest) host(ctx context.Context) (backend.Capabilities, error) {
	if g.Daemon != nil {
		if err := g.Daemon.ready(ctx); err != nil {
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

// stageThree is what stage 3 takes.
type stageThree struct {
	machine render.Machine
	front   render.Front
	bound   hostresources.Bound
}

// document runs stage 3 over the hardware of the GuestPod.
func (g *Guest) document(ctx context.Context, pod *v1alpha1.GuestPod, in stageThree) (guest hypervisor.Guest, err error) {
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

// boot starts the domain, unless an earlier attempt did, whose answer was lost.
func (g *Guest) boot(ctx context.Context, guest hypervisor.Guest) (status hypervisor.Status, err error) {
	if status, err = g.Hypervisor.State(ctx, guest.Owner); err != nil || !status.Startable() {
		return status, err
	}
	if err := ctx.Err(); err != nil {
		return status, err // nothing was started: a stop needs no shutdown
	}
	failed := g.Hypervisor.Start(ctx, guest)
	// Not with ctx, and without the error of a daemon that has just died: from here on a stop is a shutdown.
	status, err = g.state(context.WithoutCancel(ctx), guest.Owner)
	switch {
	case failed != nil && (err != nil || !status.Active()): // an active domain was started, and the answer was lost
		return status, NotStarted(failed)
	case err != nil:
		return hypervisor.Status{State: hypervisor.Running}, nil //nolint:nilerr // follow reads the state again
	}
	return status, nil
}
