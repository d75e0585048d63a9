package launch

import (
	"context"
	"time"

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

// learn asks libvirt what this machine offers.
func (n *Node) learn(ctx context.Context) error {
	facts, err := n.Libvirt.Capabilities(ctx, n.Name, n.KVM)
	if err != nil {
		return err
	}
	facts.Labels = n.Labels
	n.Host.learned.Store(&facts)
	return nil
}

// study keeps what is known of this machine up to date, until the context ends.
func (n *Node) study(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("machine")
	lost, learned, silent := n.Libvirt.Lost(), time.Time{}, !n.Host.known()
	for every(ctx, learnInterval, nil) {
		now := n.Libvirt.Lost()
		if now == lost && time.Since(learned) < learnAgain {
			continue
		}
		err := n.learn(ctx)
		if err == nil {
			lost, learned = now, time.Now()
		}
		if (err != nil) != silent {
			silent = err != nil
			log.Info(map[bool]string{true: "libvirt does not answer", false: "libvirt answers"}[silent], "socket", n.Libvirt.socket)
		}
	}
	return nil
}

// clear ends strays, soon after the start and whenever one is in the way, until the context ends.
func (n *Node) clear(ctx context.Context) error {
	for every(ctx, learnInterval, nil) && !n.Host.known() {
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
