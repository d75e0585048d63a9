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

// A stray is a domain that this launcher started and whose VMI is gone: somebody removed the finalizer, or the cluster's data was lost. A stray uses memory,
// CPUs and disks outside of every quota until it is ended.

// StraysEnded counts domains that were ended because their VMI does not exist any more.
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

// strayAction returns what to do with a domain, by its VMI as the API server has it. In doubt the domain is kept.
func (n *Node) strayAction(ctx context.Context, owner hypervisor.Owner) (strayAction, error) {
	if owner.Node != n.Name || owner.Cluster != n.Cluster {
		return keepStray, nil // the domain of another launcher or cluster that uses this libvirt
	}
	vmi := &v1.VirtualMachineInstance{}
	err := n.Live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, vmi)
	switch {
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return shutDownStray, nil
	case err != nil:
		// While the kind is not served, as during an upgrade, the API server also returns 404, about the path instead of the object.
		return keepStray, err
	case vmi.UID != owner.UID:
		return shutDownStray, nil
	case vmi.Status.NodeName != "" && vmi.Status.NodeName != n.Name:
		return removeStray, nil
	}
	return keepStray, nil
}

// endStrays ends the strays of this machine. A stray that cannot be ended is retried at the next call. Without the Lease of its name the launcher does not end
// strays, because another launcher may have started the domains.
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
		action, err := n.strayAction(ctx, owner)
		if err != nil {
			log.Info("cannot look up a VMI: its domain stays", "domain", owner.Domain(), "reason", err.Error())
		}
		if action != keepStray {
			all.Go(func() { n.endStray(ctx, owner, action) })
		}
	}
	all.Wait()
}

// strayGrace is the time that a stray has to power off. The grace period of its VMI is not known.
const strayGrace = time.Duration(v1.DefaultGracePeriodSeconds) * time.Second

// endStray ends a stray and removes its files, unless its VMI exists at a second lookup.
func (n *Node) endStray(ctx context.Context, owner hypervisor.Owner, action strayAction) {
	log := ctrl.LoggerFrom(ctx).WithName("strays").WithValues("domain", owner.Domain(), "uid", owner.UID)
	log.Info("ending a domain whose VMI is gone", "atOnce", action == removeStray)
	for end := time.Now().Add(strayGrace); action == shutDownStray && time.Now().Before(end); {
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
	action, err := n.strayAction(ctx, owner)
	if err == nil && (action == keepStray || !n.holdsLease()) {
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
