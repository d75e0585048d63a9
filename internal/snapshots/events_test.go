package snapshots

import (
	"context"
	"errors"
	"testing"

	"github.com/kilnvm/kiln/internal/snapshots/operation"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clone "kubevirt.io/api/clone/v1beta1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestEventsFollowTheirWrites: a write that loses a race has no event, and the write that is done has one.
func TestEventsFollowTheirWrites(t *testing.T) {
	refused := &unready{reason: "NotAdmitted", message: "a quota", final: false}
	for why, end := range map[string]func(context.Context, *Controller, *cluster) error{
		"a snapshot fails": func(ctx context.Context, c *Controller, in *cluster) error {
			of := read(in, "s", &api.VirtualMachineSnapshot{})
			of.Status = &api.VirtualMachineSnapshotStatus{}
			return c.fail(ctx, taking{snapshot: of}, "Reason", "why")
		},
		"a restore fails": func(ctx context.Context, c *Controller, in *cluster) error {
			of := read(in, "r", &api.VirtualMachineRestore{})
			of.Status = &api.VirtualMachineRestoreStatus{}
			return c.failRestore(ctx, &restoring{restore: of}, "Reason", "why")
		},
		"a clone fails": func(ctx context.Context, c *Controller, in *cluster) error {
			return c.failClone(ctx, read(in, "c", &clone.VirtualMachineClone{}), "Reason", "why")
		},
		"a restore is refused for a while": func(ctx context.Context, c *Controller, in *cluster) error {
			of := read(in, "r", &api.VirtualMachineRestore{})
			of.Status = &api.VirtualMachineRestoreStatus{Conditions: operation.SetCondition(nil, api.ConditionReady, operation.False("Waiting", "before"), in.now)}
			_, err := c.unread(ctx, &restoring{restore: of}, refused, nil)
			return err
		},
	} {
		cloned := &clone.VirtualMachineClone{}
		cloned.Name, cloned.Namespace = "c", key.Namespace
		in := newCluster(t, nil, machine(), snapshotOf("s"), restoreOf("r", "web"), cloned)
		recorder := events.NewFakeRecorder(10)
		in.controller.Events = recorder
		lost := apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("it has changed"))
		in.controller.Live = interceptor.NewClient(in.WithWatch, interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return lost
			},
		})
		if err := end(t.Context(), in.controller, in); !apierrors.IsConflict(err) || len(recorder.Events) > 0 {
			t.Errorf("%s: a write that lost a race returns %v, and has %d events", why, err, len(recorder.Events))
		}
		in.controller.Live = in.WithWatch
		if err := end(t.Context(), in.controller, in); err != nil || len(recorder.Events) != 1 {
			t.Errorf("%s: the write returns %v, and has %d events, want 1", why, err, len(recorder.Events))
		}
	}
}
