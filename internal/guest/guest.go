// Package guest runs the guest of one pod: it starts libvirt, learns from the cluster what to start, follows the domain to its end, and reports it.
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
	// NodeName is for messages.
	NodeName string
	// Emulate asks for a guest without KVM. Otherwise a pod without KVM starts none: the guest would be too slow to be of use.
	Emulate    bool
	Hypervisor Hypervisor
	Machine    Machine
	Channel    *Channel
	// Agent is asked while the guest runs; nil if nobody asks it.
	Agent Agent
	// Actions are served to Kiln's API server, with console and display; nil if nobody is served. Listen opens the port; nil for that of launchers.
	Actions launcherserver.Actions
	Listen  func() (net.Listener, error)
	// Live is how the hardware of the running guest is read and changed; nil if nobody does.
	Live Live
	// Daemon is run as long as the guest; nil if another process runs it.
	Daemon *Daemon
	// Serial gets what the guest writes to its serial console as log entries, as far as it reads it: a guest never waits for it.
	Serial io.Writer
	// Retry is the time to the next attempt of a refused start; 0 stands for 15 s.
	Retry time.Duration
	// AgentInterval is the time between two questions to a guest agent that answers; 0 stands for 30 s.
	AgentInterval time.Duration
}

// Hypervisor is what a guest needs of the libvirt of its pod or machine. hypervisor.Libvirt implements it; tests use a fake.
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
	// AgentFacts asks the agent in the owner's guest, until ctx ends. The error says that it does not answer.
	AgentFacts(ctx context.Context, owner hypervisor.Owner) (hypervisor.AgentFacts, error)
}

// Machine binds a VMI to its pod. hostresources.Pod implements it; tests of lives use a fake.
type Machine interface {
	Bind(ctx context.Context, vmi *v1.VirtualMachineInstance) (hostresources.Bound, field.ErrorList)
	// Console is the path of the guest's serial log.
	Console() string
}

// flushLimit bounds the last report. An API server that is away for longer learns the end from the exit status of the container.
// With destroyLimit it is less than the margin that the pod has after the grace period (graceMargin of pkg/pod): kubelet would end the launcher before.
const flushLimit = 5 * time.Second

// Run starts the guest, and returns when it has ended. When ctx ends, the guest is asked to power off within its grace period; one that was not started
// yet never is. The error says how a guest ended that neither powered off nor was ended for its owner.
func (g *Guest) Run(ctx context.Context) error {
	console, err := openConsole(g.Machine.Console(), g.Serial)
	if err != nil {
		return fmt.Errorf("the serial console cannot be read: %w", err)
	}
	defer console.close()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	defer work.Wait()
	defer end()
	if g.Daemon != nil {
		if err := g.Daemon.lay(); err != nil {
			return fmt.Errorf("libvirt's folders cannot be made: %w", err)
		}
		work.Go(func() { g.Daemon.run(life) })
	}
	changed := make(chan struct{}, 1)
	work.Go(func() { g.Hypervisor.Watch(life, func(hypervisor.Event) { poke(changed) }) })
	work.Go(func() { g.Channel.run(life) })
	server := g.serve(life, &work) // before passt takes the port
	run, err := g.start(ctx)
	if err != nil {
		return nil //nolint:nilerr // it was stopped before it was started
	}
	if server != nil {
		server.Serve(run.served())
	}
	run.changed = changed
	last := g.Daemon.withLastLine(g.follow(ctx, run))
	ctrl.LoggerFrom(ctx).Info("the guest has ended", "state", last.State, "reason", last.Reason, "message", last.Message)
	g.Channel.Report(func(status *v1alpha1.GuestPodStatus) {
		status.Domain, status.Refusal, status.Agent, status.Running = &last, nil, nil, nil
	})
	within, cancel := context.WithTimeout(life, flushLimit)
	defer cancel()
	if err := g.Channel.flush(within); err != nil {
		ctrl.LoggerFrom(ctx).Info("the end of the guest could not be reported", "reason", err.Error())
	}
	if last.State == v1alpha1.GuestPoweredOff || last.Reason == v1alpha1.ReasonStopped {
		return nil
	}
	return errors.New("the guest has ended: " + last.Message)
}

// domain is the state of a domain as GuestPod has it. One that is neither active nor ended as libvirt knows has failed.
func domain(status hypervisor.Status) v1alpha1.GuestDomain {
	states := map[hypervisor.State]v1alpha1.GuestDomainState{hypervisor.Running: v1alpha1.GuestRunning, hypervisor.Paused: v1alpha1.GuestPaused,
		hypervisor.PoweredOff: v1alpha1.GuestPoweredOff, hypervisor.Destroyed: v1alpha1.GuestDestroyed}
	state, known := states[status.State]
	if !known {
		state = v1alpha1.GuestFailed
	}
	return v1alpha1.GuestDomain{State: state, Reason: status.Cause.Reason, Message: condition.Note(status.Cause.Message), Machine: status.Machine}
}

// poke wakes the receiver of a channel with a buffer of one. A second signal before that adds nothing.
func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
