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

// A stray is a domain that this launcher started and whose VMI is gone: somebody removed the finalizer, or the VMI was lost with a part of
// the cluster. Unless it is ended, it uses memory, CPUs and disks outside of every quota.

// StraysEnded counts the strays that were ended.
var StraysEnded = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "kiln_launcher_strays_ended_total", Help: "Domains of this machine that were ended because their VMI is gone."})

// strayAction is what to do with a domain. The zero value keeps it.
type strayAction int

const (
	keepStray strayAction = iota
	// shutDownStray asks the guest to power off first.
	shutDownStray
	// removeStray destroys the domain at once: another node has the VMI and may write the same disks.
	removeStray
)

// strayAction looks up the VMI of a domain, past the cache. In doubt the domain stays.
func (n *Node) strayAction(ctx context.Context, owner hypervisor.Owner) (strayAction, error) {
	if owner.Node != n.Name || owner.Cluster != n.Cluster {
		return keepStray, nil // of another launcher or cluster that uses or used this libvirt
	}
	vmi := &v1.VirtualMachineInstance{}
	err := n.Live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, vmi)
	switch {
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return shutDownStray, nil
	case err != nil:
		// While the kind is not served, as during an upgrade, the API server returns 404 too, but for the path.
		return keepStray, err
	case vmi.UID != owner.UID:
		return shutDownStray, nil
	case vmi.Status.NodeName != "" && vmi.Status.NodeName != n.Name:
		return removeStray, nil
	}
	return keepStray, nil
}

// endStrays ends every stray of this machine. It tries one that cannot be ended again at the next search. Without the Lease of its name
// the launcher ends none: another launcher may have started the domain.
func (n *Node) endStrays(ctx context.Context) {
	if !n.holdsLease() {
		return
	}
	log := ctrl.LoggerFrom(ctx).WithName("strays")
	owners, err := n.Hypervisor.Owners(ctx)
	if err != nil {
		log.Info("cannot list domains", "reason", err.Error())
		return
	}
	var all sync.WaitGroup
	for _, owner := range owners {
		verdict, err := n.strayAction(ctx, owner)
		if err != nil {
			log.Info("cannot look up a VMI: its domain stays", "domain", owner.Domain(), "reason", err.Error())
		}
		if verdict != keepStray {
			all.Go(func() { n.endStray(ctx, owner, verdict) })
		}
	}
	all.Wait()
}

// strayGrace is the time that a stray has to power off. Its VMI's own grace period is not known.
const strayGrace = time.Duration(v1.DefaultGracePeriodSeconds) * time.Second

// endStray ends a stray, unless its VMI exists at the second lookup.
func (n *Node) endStray(ctx context.Context, owner hypervisor.Owner, verdict strayAction) {
	log := ctrl.LoggerFrom(ctx).WithName("strays").WithValues("domain", owner.Domain(), "uid", owner.UID)
	log.Info("ending a domain whose VMI is gone", "atOnce", verdict == removeStray)
	for end := time.Now().Add(strayGrace); verdict == shutDownStray && time.Now().Before(end); {
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
	verdict, err := n.strayAction(ctx, owner)
	if err == nil && (verdict == keepStray || !n.holdsLease()) {
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
		log.Info("cannot end the domain yet", "reason", err.Error())
		return
	}
	StraysEnded.Inc()
	log.Info("ended the domain and removed its files and side documents")
}
