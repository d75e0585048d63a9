// Package guest runs the guest of one pod: it starts libvirt, reads the VMI and its hardware from the cluster, starts the domain, and reports its state until
// its end.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/internal/launcherserver"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Guest is the guest of this pod.
type Guest struct {
	// NodeName is used in messages only.
	NodeName string
	// Emulate starts the guest without KVM. Otherwise a pod without KVM does not start its guest, because an emulated guest is too slow for normal use.
	Emulate    bool
	Hypervisor Hypervisor
	Machine    Machine
	Channel    *Channel
	// Agent is asked while the guest runs; nil if the agent is not asked.
	Agent Agent
	// Actions are served to Kiln's API server, with console and display; nil if no server runs. Listen opens the port; nil for launcherserver.Listen.
	Actions launcherserver.Actions
	Listen  func() (net.Listener, error)
	// Live reads and changes the hardware of the running guest; nil if the hardware is not followed.
	Live Live
	// Daemon runs as long as the guest; nil if another process runs libvirt.
	Daemon *Daemon
	// Serial receives the guest's serial console as log entries. If Serial is slow, output is dropped: the guest never waits for it.
	Serial io.Writer
	// Retry is the time to the next attempt of a refused start; 0 means 15 s.
	Retry time.Duration
	// AgentInterval is the time between two questions to a guest agent that answers; 0 means 30 s.
	AgentInterval time.Duration
}

// Hypervisor starts, watches and ends domains by the libvirt of a pod or machine. hypervisor.Libvirt implements it; tests use a fake.
type Hypervisor interface {
	// Capabilities reads the facts of the machine.
	Capabilities(ctx context.Context, node string, kvm hypervisor.KVM) (backend.Capabilities, error)
	// Watch calls observe for each change of a domain's state until the context ends.
	Watch(ctx context.Context, observe func(hypervisor.Event))
	// State, Start, Shutdown and Destroy act on the owner's domain. If the domain of that name has another owner, the error is a
	// *hypervisor.TakenError.
	State(ctx context.Context, owner hypervisor.Owner) (hypervisor.Status, error)
	Start(ctx context.Context, guest hypervisor.Guest) error
	Shutdown(ctx context.Context, owner hypervisor.Owner) error
	Destroy(ctx context.Context, owner hypervisor.Owner) error
}

// Agent asks the guest agent. hypervisor.Libvirt implements it; tests use a fake.
type Agent interface {
	// AgentFacts asks the agent in the owner's guest until ctx ends. It returns an error if the agent does not answer.
	AgentFacts(ctx context.Context, owner hypervisor.Owner) (hypervisor.AgentFacts, error)
	// SetAuthorizedKeys replaces the SSH keys of a user of the owner's guest. SetPassword sets the password of a user.
	SetAuthorizedKeys(ctx context.Context, owner hypervisor.Owner, user string, keys []string) error
	SetPassword(ctx context.Context, owner hypervisor.Owner, user, password string) error
}

// Machine binds a VMI to its pod. hostresources.Pod implements it; tests use a fake.
type Machine interface {
	Bind(ctx context.Context, vmi *v1.VirtualMachineInstance) (hostresources.Bound, field.ErrorList)
	// Credentials reads the current accessCredentials of the VMI for the guest agent.
	Credentials(vmi *v1.VirtualMachineInstance) (hostresources.Credentials, error)
	// Console returns the path of the guest's serial log.
	Console() string
}

// flushLimit bounds the last report. If the API server does not answer within it, the cluster learns the end from the exit status of the container.
// flushLimit and destroyLimit together are shorter than the pod's margin after the grace period (graceMargin of pkg/pod), at whose end kubelet kills the
// launcher.
const flushLimit = 5 * time.Second

// Run starts the guest, and returns when it has ended. When ctx ends, the guest is asked to power off within its grace period; if it has not been started yet,
// it never is. Run returns nil after a power-off or a requested stop, and otherwise an error with the reason.
func (g *Guest) Run(ctx context.Context) error {
	console, err := openConsole(g.Machine.Console(), g.Serial)
	if err != nil {
		return fmt.Errorf("the serial console cannot be read: %w", err)
	}
	defer console.drainAndClose()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	defer work.Wait()
	defer end()
	if g.Daemon != nil {
		if err := g.Daemon.writeConfig(); err != nil {
			return fmt.Errorf("libvirt's folders cannot be made: %w", err)
		}
		work.Go(func() { g.Daemon.keepRunning(life) })
	}
	changed := make(chan struct{}, 1)
	work.Go(func() { g.Hypervisor.Watch(life, func(hypervisor.Event) { WakeReceiver(changed) }) })
	work.Go(func() { g.Channel.syncWithCluster(life) })
	server := g.startServer(life, &work) // before passt takes the port
	run, err := g.startUntilStarted(ctx)
	if err != nil {
		return nil //nolint:nilerr // the pod was stopped before its guest was started
	}
	if server != nil {
		server.Serve(run.serverGuest())
	}
	run.changed = changed
	last := g.Daemon.addQEMULastLine(g.followDomain(ctx, run))
	ctrl.LoggerFrom(ctx).Info("the guest has ended", "state", last.State, "reason", last.Reason, "message", last.Message)
	g.Channel.Report(func(status *v1alpha1.GuestPodStatus) {
		status.Domain, status.Refusal, status.Agent, status.Credentials, status.Running = &last, nil, nil, nil, nil
	})
	within, cancel := context.WithTimeout(life, flushLimit)
	defer cancel()
	if err := g.Channel.flushReports(within); err != nil {
		ctrl.LoggerFrom(ctx).Info("the end of the guest could not be reported", "reason", err.Error())
	}
	if last.State == v1alpha1.GuestPoweredOff || last.Reason == v1alpha1.ReasonStopped {
		return nil
	}
	return errors.New("the guest has ended: " + last.Message)
}

// guestDomain converts libvirt's status to status.domain of a GuestPod. A domain that is not active, and whose end libvirt does not explain, has failed.
func guestDomain(status hypervisor.Status) v1alpha1.GuestDomain {
	states := map[hypervisor.State]v1alpha1.GuestDomainState{hypervisor.Running: v1alpha1.GuestRunning, hypervisor.Paused: v1alpha1.GuestPaused,
		hypervisor.PoweredOff: v1alpha1.GuestPoweredOff, hypervisor.Destroyed: v1alpha1.GuestDestroyed}
	state, known := states[status.State]
	if !known {
		state = v1alpha1.GuestFailed
	}
	return v1alpha1.GuestDomain{State: state, Reason: status.Cause.Reason, Message: condition.Note(status.Cause.Message), Machine: status.Machine}
}

// WakeReceiver wakes the receiver of a channel with a buffer of one. A second signal before that adds nothing.
func WakeReceiver(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // a signal is pending, or there is no receiver
	}
}
