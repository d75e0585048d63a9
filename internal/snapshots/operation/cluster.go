// Package operation contains what the reconcilers of snapshots, restores and clones share: writes, conditions, events, back-off and metrics. An
// operation is one VirtualMachineSnapshot, VirtualMachineRestore or VirtualMachineClone.
package operation

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster reads and writes objects of a cluster, and records events about them.
type Cluster struct {
	// Live reads and writes past the cache. Operations are few, and each step depends on what the step before has written.
	Live   client.Client
	Events events.EventRecorder
	Now    func() time.Time
}

// Patch applies change to an object and writes the difference, if there is one. It fails with a conflict if the stored object is newer. Afterwards
// the object is as it is stored.
func (c *Cluster) Patch(ctx context.Context, object client.Object, change func()) error {
	return c.writeDifference(ctx, object, change, objects.Patch)
}

// PatchStatus applies change to an object and writes the difference of the status, as Patch does.
func (c *Cluster) PatchStatus(ctx context.Context, object client.Object, change func()) error {
	return c.writeDifference(ctx, object, change, objects.PatchStatus)
}

func (c *Cluster) writeDifference(
	ctx context.Context, object client.Object, change func(), patch func(_ context.Context, _ client.Client, changed, before client.Object) error,
) error {
	before := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type
	change()
	difference, err := client.MergeFrom(before).Data(object)
	if err != nil || string(difference) == "{}" {
		return err
	}
	return patch(ctx, c.Live, object, before)
}

// RecordNormal records an event of type Normal.
func (c *Cluster) RecordNormal(about client.Object, reason, note string) {
	c.Events.Eventf(about, nil, corev1.EventTypeNormal, reason, "Reconcile", "%s", condition.Note(note))
}

// RecordWarning records an event of type Warning.
func (c *Cluster) RecordWarning(about client.Object, reason, note string) {
	c.Events.Eventf(about, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", condition.Note(note))
}

// WarnAfterWrite records a warning if write is nil: write is the error of the request that the event is about. It returns write. Otherwise a write that is
// repeated after a conflict would repeat its event.
func (c *Cluster) WarnAfterWrite(write error, about client.Object, reason, note string) error {
	if write == nil {
		c.RecordWarning(about, reason, note)
	}
	return write
}
