// Package vmipod makes one pod of each VMI, and tells the VMI's status what became of it. It gives the launcher in the pod a GuestPod, runs stage 2 with
// the facts that the launcher reports there, and records the hardware before the launcher starts the guest.
//
// A guest runs only in the pod that its GuestPod names, a GuestPod names only a pod that status.activePods of the VMI has, and that holds one pod for good.
// So a VMI has one guest, whichever process dies after whichever write. A guest that starts again is that of another VMI.
package vmipod

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/outage"
	"github.com/kilnvm/kiln/internal/ownwrite"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Controller makes the pods of VMIs.
type Controller struct {
	// Client reads from informers, which lack what command.Slim removes, and writes to the API server.
	Client client.Client
	// Live reads and writes past the cache.
	Live client.Client
	// Configuration returns the configuration in force, and Configured whether it was read: the first boot records its defaults for good.
	Configuration func() config.Cluster
	Configured    func() bool
	// Settings are those of pods that the flags give. The configuration gives the others.
	Settings pod.Settings
	// Clients are whom launchers serve consoles; nil for nobody.
	Clients *Clients
	Events  events.EventRecorder
	Now     func() time.Time

	refused refusals
	awaited awaited
	// outages are the VMIs that a webhook keeps from a step.
	outages        outage.Waiting
	vmis, guests   ownwrite.Memo
	statusesLimits limits
	// mountLimits bound how often the events of pods are read.
	mountLimits limits
	// bindingLimits bound how often the claims of pods are read.
	bindingLimits limits
	// adjustLimits bound how often what a running guest is to have is looked at.
	adjustLimits limits
	// runningLimits bound how often what libvirt runs is copied.
	runningLimits limits
	// copied is the last report of each guest that was judged, by types.NamespacedName, as reportOf gives it. It is lost with the process, which then reads the
	// GuestHardware of each guest once.
	copied sync.Map
}

const (
	// workers is the number of VMIs that are reconciled at the same time: a start is some calls of the API server in a row.
	workers = 8
	// conflictRetry is the time after which a write that lost a race is repeated. The other write arrives as an event, but may have arrived already.
	conflictRetry = 50 * time.Millisecond
	// soon is the time after which a step is repeated that waits for what another process is about to do.
	soon = time.Second
)

// later is the error of a step that is to be repeated in a moment.
type later string

func (l later) Error() string { return string(l) }

// outcome is what a step has led to, besides its writes.
type outcome struct {
	// refusal is why the guest does not start, for the VMI's owner; nil if nothing keeps it from that.
	refusal *condition.Cause
	// after is the time after which the VMI is reconciled again without an event, 0 if never.
	after time.Duration
	// growth is what the running guest waits for that its pod has not got; nil if it waits for nothing. growthUnknown reports that nobody has looked.
	growth        *growth
	growthUnknown bool
}

// again asks for another reconcile after a time, unless one is due sooner.
func (o *outcome) again(after time.Duration) {
	if after > 0 && (o.after == 0 || after < o.after) {
		o.after = after
	}
}

// Reconcile brings the pod of a VMI one step closer to the VMI, and the VMI's status to the pod. A conflict is a request to try again, not an error:
// errors are logged and counted, and a lost race is nobody's fault.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o, err := c.reconcile(ctx, request.NamespacedName)
	if errors.As(err, new(later)) {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return ctrl.Result{RequeueAfter: o.after}, err
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (o outcome, err error) {
	s, err := c.observe(ctx, key)
	if err != nil {
		return o, err
	}
	if s.vmi == nil {
		c.forget(key)
	} else if c.vmis.Ahead(s.vmi, c.Now()) || s.guest != nil && c.guests.Ahead(s.guest, c.Now()) {
		return outcome{after: conflictRetry}, nil
	}
	at := s.facts()
	next := decide(at)
	if o, err = c.act(ctx, s, next); err != nil || !next.followedByStatus() || at.vmiFinal { // a final phase and its cause stay
		return o, err
	}
	if err := c.adjust(ctx, s, &o); err != nil {
		return o, err
	}
	if err := c.report(ctx, s, &o); err != nil {
		return o, err
	}
	return o, c.recordRunning(ctx, s, &o)
}

// forget drops what is remembered of a VMI that does not exist.
func (c *Controller) forget(key types.NamespacedName) {
	c.refused.forget(key)
	c.awaited.setObjects(key, nil)
	c.outages.Forget(key)
	c.vmis.Forget(key)
	c.guests.Forget(key)
	c.statusesLimits.forget(key)
	c.mountLimits.forget(key)
	c.bindingLimits.forget(key)
	c.adjustLimits.forget(key)
	c.runningLimits.forget(key)
	c.copied.Delete(key)
}
