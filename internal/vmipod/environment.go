package vmipod

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/outage"
	"github.com/kilnvm/kiln/internal/ownwrite"
	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options configure a Controller.
type Options struct {
	// Client reads from informers, which lack what command.Slim removes, and writes to the API server.
	Client client.Client
	// Live reads and writes past the cache.
	Live client.Client
	// Configuration returns the current configuration, and Configured whether it was read: the first boot records its defaults for good.
	Configuration func() config.Cluster
	Configured    func() bool
	// Settings are the settings of pods from flags. The configuration has the others.
	Settings pod.Settings
	// Clients may open consoles of guests. If it is nil, nobody may.
	Clients *Clients
	Events  events.EventRecorder
	Now     func() time.Time
}

// environment is what all steps of a controller share.
type environment struct {
	Options
	// writtenVMIs and writtenGuestPods are the writes of this process whose events have not arrived.
	writtenVMIs, writtenGuestPods ownwrite.Memo
	// outages are the VMIs whose action a webhook prevents.
	outages outage.Waiting
}

// podInputs returns the reader of what pods depend on, with the current configuration.
func (e *environment) podInputs() podinput.Reader {
	return podinput.Reader{Cache: e.Client, Live: e.Live, Configuration: e.Configuration(), Settings: e.Settings}
}

// patchVMI writes the metadata of a VMI. A VMI that is gone is no error.
func (e *environment) patchVMI(ctx context.Context, changed, before *v1.VirtualMachineInstance) error {
	err := objects.Patch(ctx, e.Client, changed, before)
	if err == nil {
		e.writtenVMIs.Note(changed, e.Now())
	}
	return client.IgnoreNotFound(err)
}

func (e *environment) patchVMIStatus(ctx context.Context, changed, before *v1.VirtualMachineInstance) error {
	err := objects.PatchStatus(ctx, e.Client, changed, before)
	if err == nil {
		e.writtenVMIs.Note(changed, e.Now())
	}
	return err
}

// patchGuestPod writes the spec of a GuestPod. A GuestPod that is gone is no error.
func (e *environment) patchGuestPod(ctx context.Context, changed, before *v1alpha1.GuestPod) error {
	err := objects.Patch(ctx, e.Live, changed, before)
	if err == nil {
		e.writtenGuestPods.Note(changed, e.Now())
	}
	return client.IgnoreNotFound(err)
}

// deleteObject deletes an object if it is still the one that was read.
func (e *environment) deleteObject(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := objects.DeleteSame(ctx, e.Live, object, options...); err != nil {
		return fmt.Errorf("deleting %T '%s': %w", object, object.GetName(), err)
	}
	return nil
}

// writeEvent writes an event about a VMI. Call it after the write that the event is about: a write that is repeated after a conflict must not repeat the event.
func (e *environment) writeEvent(vmi *v1.VirtualMachineInstance, kind string, cause condition.Cause) {
	e.Events.Eventf(vmi, nil, kind, cause.Reason, "Reconcile", "%s", condition.Note(cause.Message))
}

// refusedCreate returns the cause if a create for a VMI was refused, and the error if it failed otherwise. It notes the webhook that did not answer, if any.
func (e *environment) refusedCreate(vmi *v1.VirtualMachineInstance, err error) (*condition.Cause, error) {
	if podinput.IsRefused(err) {
		e.outages.Note(client.ObjectKeyFromObject(vmi), outage.WebhookOf(err))
		return &condition.Cause{Reason: v1alpha1.ReasonFailedCreate, Message: err.Error()}, nil
	}
	return nil, err
}
