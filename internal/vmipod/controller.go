// Package vmipod creates one pod for each VMI, and writes into the VMI's status what became of the pod. It gives the launcher in the pod a GuestPod, runs
// stage 2 with the facts that the launcher reports there, and records the hardware before the launcher starts the guest.
//
// A guest runs only in the pod that its GuestPod names. A GuestPod names only a pod of status.activePods of the VMI, which has one pod for good. So a VMI has
// one guest, whichever process dies after whichever write. A guest that starts again has another VMI.
//
// decide.go has the next action for each situation as a table. The other files have one step each, as a type with the environment that all steps share.
package vmipod

import (
	"context"
	"errors"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/internal/vmipod/vmistatus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Controller creates the pods of VMIs and follows them.
type Controller struct {
	*environment
	refused refusals
	awaited *awaitedObjects
	lookup  objectLookup

	vmiFinalizer     vmiFinalizer
	podCreation      podCreation
	podDeletion      podDeletion
	guestPodCreation guestPodCreation
	guestPodClients  guestPodClients
	hardwareRecord   hardwareRecord
	finalPhase       finalPhase
	hotplug          *hotplug
	statusReport     *statusReport
	runningHardware  *runningHardware
}

// New returns a controller that Register adds to a manager.
func New(options Options) *Controller {
	e := &environment{Options: options}
	awaited, lookup, running := &awaitedObjects{}, objectLookup{e}, &runningHardware{environment: e}
	return &Controller{
		environment: e, awaited: awaited, lookup: lookup,
		vmiFinalizer: vmiFinalizer{e},
		podCreation: podCreation{environment: e, awaited: awaited, lookup: lookup, account: launcherAccount{e},
			state: guestState{environment: e, awaited: awaited, lookup: lookup}},
		podDeletion: podDeletion{e}, guestPodCreation: guestPodCreation{e}, guestPodClients: guestPodClients{e}, hardwareRecord: hardwareRecord{e},
		finalPhase: finalPhase{environment: e, running: running},
		hotplug:    &hotplug{environment: e, resize: podResize{e}},
		statusReport: &statusReport{environment: e, mountFailures: &mountFailures{environment: e},
			unboundClaims: &unboundClaims{environment: e}},
		runningHardware: running,
	}
}

const (
	// workers is the number of VMIs that are reconciled at the same time: a start is some calls of the API server in a row.
	workers = 8
	// conflictRetry is the time after which a write that lost a race is repeated. The other write arrives as an event, but may have arrived already.
	conflictRetry = 50 * time.Millisecond
	// soon is the time after which an action is repeated that waits for what another process is about to do.
	soon = time.Second
)

// retryError is the error of an action that is to be repeated soon.
type retryError string

func (e retryError) Error() string { return string(e) }

// outcome is the result of an action, besides its writes.
type outcome struct {
	// refusal is why the guest does not start, for the VMI's owner; nil if the action succeeded.
	refusal *condition.Cause
	// after is the time after which the VMI is reconciled again without an event, 0 if never.
	after time.Duration
	// pendingHotplug is nil if the pod has the resources that the VMI asks for. hotplugUnknown reports that this was not computed.
	pendingHotplug *vmistatus.PendingHotplug
	hotplugUnknown bool
}

// requeueAfter asks for another reconcile after a time, unless one is due sooner.
func (o *outcome) requeueAfter(after time.Duration) {
	if after > 0 && (o.after == 0 || after < o.after) {
		o.after = after
	}
}

// Reconcile does the next action for a VMI and writes the VMI's status. A conflict is a request to try again and not an error: errors are logged and counted.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	done, err := c.reconcileVMI(ctx, request.NamespacedName)
	if errors.As(err, new(retryError)) {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return ctrl.Result{RequeueAfter: done.after}, err
}

func (c *Controller) reconcileVMI(ctx context.Context, key types.NamespacedName) (done outcome, err error) {
	o, err := observed.Read(ctx, c.Client, key)
	if err != nil {
		return done, err
	}
	if o.VMI == nil {
		c.forgetVMI(key)
	} else if c.writtenVMIs.Ahead(o.VMI, c.Now()) || o.GuestPod != nil && c.writtenGuestPods.Ahead(o.GuestPod, c.Now()) {
		return outcome{after: conflictRetry}, nil
	}
	at := factsOf(o)
	next := nextAction(at)
	if done, err = c.performAction(ctx, o, next); err != nil || !next.followedByStatus() || at.vmiFinal { // a final phase and its cause stay
		return done, err
	}
	if err := c.hotplug.updateLiveHardware(ctx, o, &done); err != nil {
		return done, err
	}
	if err := c.statusReport.writeStatus(ctx, o, &done); err != nil {
		return done, err
	}
	return done, c.runningHardware.copyReport(ctx, o, &done)
}

// performAction does an action. Each action can be repeated: this process may die after any of its writes.
func (c *Controller) performAction(ctx context.Context, o observed.Objects, next action) (done outcome, err error) {
	switch next {
	case actionAddVMIFinalizer:
		return done, c.vmiFinalizer.addFinalizer(ctx, o.VMI)
	case actionCreatePod:
		return c.unlessRefused(o, func() (*condition.Cause, error) { return c.podCreation.createPodAndNeeds(ctx, o) })
	case actionReportNameTaken:
		return outcome{refusal: nameTakenCause("Pod", o.Pod.Name), after: retryInterval}, nil
	case actionWait:
		if o.VMI.DeletionTimestamp != nil && o.Pod != nil && o.Pod.DeletionTimestamp != nil && factsOf(o).podBelongsToVMI() {
			return done, c.podDeletion.shortenGracePeriod(ctx, o)
		}
		return done, c.guestPodClients.writeClients(ctx, o)
	case actionDeletePod:
		return done, c.podDeletion.deletePod(ctx, o)
	case actionDeleteUnrecordedPod:
		return done, c.podDeletion.deleteUnrecorded(ctx, o)
	case actionDeleteGuestPod:
		return done, c.deleteObject(ctx, o.GuestPod)
	case actionCreateGuestPod:
		return c.unlessRefused(o, func() (*condition.Cause, error) { return c.guestPodCreation.createGuestPod(ctx, o) })
	case actionRecordHardware:
		return c.unlessRefused(o, func() (*condition.Cause, error) { return c.hardwareRecord.recordHardware(ctx, o) })
	case actionSetFinalPhase:
		if done, err = c.finalPhase.setFinalPhase(ctx, o); err == nil {
			c.refused.forgetVMI(o.Key)
		}
		return done, err
	case actionRemovePodFinalizer:
		return done, c.podDeletion.removeFinalizer(ctx, o)
	case actionRemoveVMIFinalizer:
		return c.vmiFinalizer.removeFinalizer(ctx, o)
	}
	return done, nil
}

// forgetVMI drops what is remembered of a VMI that does not exist.
func (c *Controller) forgetVMI(key types.NamespacedName) {
	c.refused.forgetVMI(key)
	c.awaited.setObjects(key, nil)
	c.outages.Forget(key)
	c.writtenVMIs.Forget(key)
	c.writtenGuestPods.Forget(key)
	c.hotplug.forgetVMI(key)
	c.statusReport.forgetVMI(key)
	c.runningHardware.forgetVMI(key)
}
