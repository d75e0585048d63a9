package node

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	ctrl "sigs.k8s.io/controller-runtime"
)

// A launcher looks after its machine also when no VMI changes.

const (
	// learnInterval is how soon a libvirt daemon is asked again that did not answer.
	learnInterval = 5 * time.Second
	// learnAgain is when the machine's capabilities are read again all the same: a QEMU is upgraded without a new libvirt daemon.
	learnAgain = 5 * time.Minute
	// strayInterval is how often domains are looked for whose VMI is gone.
	strayInterval = 2 * time.Minute
)

// Learn asks libvirt what this machine offers.
func (n *Node) Learn(ctx context.Context) error {
	facts, err := n.Hypervisor.Capabilities(ctx, n.Name, n.KVM)
	if err != nil {
		return err
	}
	facts.Labels = n.Labels
	n.learned.Store(&facts)
	return nil
}

// facts are what libvirt said of this machine last, or what is assumed before it has said anything. A caller that uses them twice asks once, since
// they may change in between.
func (n *Node) facts() backend.Capabilities {
	if learned := n.learned.Load(); learned != nil {
		return *learned
	}
	return n.Assumed
}

// known reports whether libvirt was ever asked.
func (n *Node) known() bool { return n.learned.Load() != nil }

// keepLearning keeps what is known of this machine up to date, until the context ends. A daemon that was started anew may be another version.
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

// keepEndingStrays ends strays soon after the start, every strayInterval, and whenever one may be in the way, until the context ends.
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

// signal wakes who waits on a channel of one place. A second signal before that adds nothing.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // there is one already, or nobody waits
	}
}

// waited waits for an interval, or for a signal. It reports false when the context has ended.
func waited(ctx context.Context, interval time.Duration, wake <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-time.After(interval):
	}
	return true
}
