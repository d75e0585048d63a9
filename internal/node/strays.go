package node

import (
	"context"
	"sync"
	"time"

	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A stray is a domain that this launcher has started and whose VMI is gone: somebody took the finalizer away, or the VMI was
// lost with a part of the cluster. It would keep memory, CPUs and disks for ever, out of every quota.

// StraysEnded counts them.
var StraysEnded = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "kiln_launcher_strays_ended_total", Help: "Domains of this machine that were ended since their VMI is gone."})

// fate is what becomes of a domain.
type fate int

const (
	keep fate = iota
	// retire asks the guest to power off first.
	retire
	// cut ends it at once: the VMI is another node's, where a second guest may write the same disks.
	cut
)

// judge looks a domain's owner up, past the cache. Whatever is not known for sure keeps it.
func (n *Node) judge(ctx context.Context, owner hypervisor.Owner) (fate, error) {
	if owner.Node != n.Name || owner.Cluster != n.Cluster {
		return keep, nil // of a launcher with another name or cluster, which has this libvirt too or had it before
	}
	vmi := &v1.VirtualMachineInstance{}
	err := n.Live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, vmi)
	switch {
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return retire, nil
	case err != nil:
		// An API server without the kind, which is being installed or upgraded, also says 'not found', but of the path.
		return keep, err
	case vmi.UID != owner.UID:
		return retire, nil
	case vmi.Status.NodeName != "" && vmi.Status.NodeName != n.Name:
		return cut, nil
	}
	return keep, nil
}

// endStrays ends every stray of this machine. One that cannot be ended is met again at the next look. Without the Lease of its name the
// launcher ends none: another launcher may have started the domain.
func (n *Node) endStrays(ctx context.Context) {
	if !n.holdsLease() {
		return
	}
	log := ctrl.LoggerFrom(ctx).WithName("strays")
	owners, err := n.Hypervisor.Owners(ctx)
	if err != nil {
		log.Info("domains cannot be listed", "reason", err.Error())
		return
	}
	var all sync.WaitGroup
	for _, owner := range owners {
		verdict, err := n.judge(ctx, owner)
		if err != nil {
			log.Info("a VMI cannot be looked up: its domain stays", "domain", owner.Domain(), "reason", err.Error())
		}
		if verdict != keep {
			all.Go(func() { n.endStray(ctx, owner, verdict) })
		}
	}
	all.Wait()
}

// strayGrace is how long a stray may take to power off. What its VMI said is gone with it.
const strayGrace = defaultGracePeriod

// endStray ends one, unless its VMI turns out to be there after all.
func (n *Node) endStray(ctx context.Context, owner hypervisor.Owner, verdict fate) {
	log := ctrl.LoggerFrom(ctx).WithName("strays").WithValues("domain", owner.Domain(), "uid", owner.UID)
	log.Info("the VMI of a domain is gone: it is ended", "atOnce", verdict == cut)
	for end := time.Now().Add(strayGrace); verdict == retire && time.Now().Before(end); {
		status, err := n.Hypervisor.State(ctx, owner)
		if err != nil || !status.Active() {
			break
		}
		if err := n.Hypervisor.Shutdown(ctx, owner); err != nil {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
	verdict, err := n.judge(ctx, owner)
	if err == nil && (verdict == keep || !n.holdsLease()) {
		return
	}
	if err == nil {
		err = n.Hypervisor.Remove(ctx, owner)
	}
	if err == nil {
		vmi := &v1.VirtualMachineInstance{}
		vmi.Namespace, vmi.Name, vmi.UID = owner.Namespace, owner.Name, owner.UID
		err = n.Machine.Forget(vmi)
	}
	if err != nil {
		log.Info("it is not ended yet", "reason", err.Error())
		return
	}
	StraysEnded.Inc()
	log.Info("it is ended, with all that was made for it")
}
