package node

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Periodic work of a launcher, which no change of a VMI causes.

const (
	// learnInterval is the time to the next attempt if the libvirt daemon did not answer.
	learnInterval = 5 * time.Second
	// learnAgain is the time after which the machine's capabilities are read again: an upgrade of QEMU does not restart the libvirt daemon.
	learnAgain = 5 * time.Minute
	// strayInterval is the time between two searches for domains whose VMI is gone.
	strayInterval = 2 * time.Minute
)

// Learn reads the machine's capabilities from libvirt.
func (n *Node) Learn(ctx context.Context) error {
	facts, err := n.Hypervisor.Capabilities(ctx, n.Name, n.KVM)
	if err != nil {
		return err
	}
	facts.Labels = n.Labels
	n.learned.Store(&facts)
	return nil
}

// facts returns the capabilities that libvirt reported last, or the assumed ones before that. They may change between two calls.
func (n *Node) facts() backend.Capabilities {
	if learned := n.learned.Load(); learned != nil {
		return *learned
	}
	return n.Assumed
}

// known reports whether libvirt has reported the capabilities.
func (n *Node) known() bool { return n.learned.Load() != nil }

// keepLearning keeps the machine's capabilities up to date until the context ends. A restarted daemon may be another version.
func (n *Node) keepLearning(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("machine")
	answers, again := n.known(), learnInterval
	for waited(ctx, again, n.connected) {
		err := n.Learn(ctx)
		again = learnAgain
		if err != nil {
			again = learnInterval
		}
		switch {
		case err != nil && answers:
			log.Info("libvirt does not answer", "reason", err.Error())
		case err == nil && !answers:
			log.Info("libvirt answers")
		}
		answers = err == nil
	}
	return nil
}

// keepEndingStrays ends strays after the start, every strayInterval, and when a name is taken, until the context ends.
func (n *Node) keepEndingStrays(ctx context.Context) error {
	for waited(ctx, learnInterval, nil) && !n.known() {
	}
	for {
		n.endStrays(ctx)
		if !waited(ctx, strayInterval, n.strayInTheWay) {
			return nil
		}
	}
}

// signal wakes the receiver of a channel with a buffer of one. A second signal before that adds nothing.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // one is pending, or there is no receiver
	}
}

// waited waits for an interval or a signal. It returns false if the context ended.
func waited(ctx context.Context, interval time.Duration, wake <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-time.After(interval):
	}
	return true
}
