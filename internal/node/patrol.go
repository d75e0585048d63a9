package node

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	ctrl "sigs.k8s.io/controller-runtime"
)

// A launcher looks after its machine also when no VMI changes.

const (
	// learnInterval is how soon a libvirt daemon that was started, or started anew, is found.
	learnInterval = 5 * time.Second
	// learnAgain is when the machine's capabilities are read again all the same: a QEMU is upgraded without a new libvirt daemon.
	learnAgain = 5 * time.Minute
	// strayInterval is how often domains are looked for whose VMI is gone.
	strayInterval = 2 * time.Minute
)

// Learn asks libvirt what this machine offers.
func (n *Node) Learn(ctx context.Context) error {
	facts, err := n.Libvirt.Capabilities(ctx, n.Name, n.KVM)
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

// study keeps what is known of this machine up to date, until the context ends.
func (n *Node) study(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("machine")
	lost, learned, silent := n.Libvirt.Lost(), time.Time{}, !n.known()
	for every(ctx, learnInterval, nil) {
		now := n.Libvirt.Lost()
		if now == lost && time.Since(learned) < learnAgain {
			continue
		}
		err := n.Learn(ctx)
		if err == nil {
			lost, learned = now, time.Now()
		}
		if (err != nil) != silent {
			silent = err != nil
			log.Info(map[bool]string{true: "libvirt does not answer", false: "libvirt answers"}[silent])
		}
	}
	return nil
}

// clear ends strays, soon after the start and whenever one is in the way, until the context ends.
func (n *Node) clear(ctx context.Context) error {
	for every(ctx, learnInterval, nil) && !n.known() {
	}
	for {
		n.endStrays(ctx)
		if !every(ctx, strayInterval, n.inTheWay) {
			return nil
		}
	}
}

// wake has clear look now.
func (n *Node) wake() {
	select {
	case n.inTheWay <- struct{}{}:
	default: // it is awake, or there is none
	}
}

// every waits for an interval, or until it is woken. It is false when the context has ended.
func every(ctx context.Context, interval time.Duration, wake <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-time.After(interval):
	}
	return true
}
