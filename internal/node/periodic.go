package node

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Periodic work of a launcher, independent of changes of VMIs.

const (
	// learnInterval is the time to the next attempt if the libvirt daemon did not answer.
	learnInterval = 5 * time.Second
	// relearnInterval is the time after which the capabilities are read again: an upgrade of QEMU does not restart the libvirt daemon.
	relearnInterval = 5 * time.Minute
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
	n.learnedFacts.Store(&facts)
	return nil
}

// hostFacts returns the capabilities that libvirt reported last; Assumed before the first report. They may change between two calls.
func (n *Node) hostFacts() backend.Capabilities {
	if learned := n.learnedFacts.Load(); learned != nil {
		return *learned
	}
	return n.Assumed
}

// factsLearned reports whether libvirt has ever reported the capabilities.
func (n *Node) factsLearned() bool { return n.learnedFacts.Load() != nil }

// keepLearning reads the machine's capabilities periodically, and when a stream of events begins, until the context ends: a restarted daemon may have another
// version.
func (n *Node) keepLearning(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("machine")
	answers, again := n.factsLearned(), learnInterval
	for waitInterval(ctx, again, n.connected) {
		err := n.Learn(ctx)
		again = relearnInterval
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

// keepEndingStrays ends strays when libvirt first answers, every strayInterval, and when a stray occupies a name, until the context ends.
func (n *Node) keepEndingStrays(ctx context.Context) error {
	for waitInterval(ctx, learnInterval, nil) && !n.factsLearned() {
	}
	for {
		n.endStrays(ctx)
		if !waitInterval(ctx, strayInterval, n.strayInTheWay) {
			return nil
		}
	}
}

// waitInterval waits for an interval or a signal. It returns false if the context has ended.
func waitInterval(ctx context.Context, interval time.Duration, wake <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-time.After(interval):
	}
	return true
}
