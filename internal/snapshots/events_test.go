package snapshots

import (
	"context"
	"errors"
	"testing"

	"github.com/kilnvm/kiln/internal/snapshots/operation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clone "kubevirt.io/api/clone/v1beta1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestEventsFollowTheirWrites: a status write that loses a race has no event, and the write that succeeds has one.
func TestEventsFollowTheirWrites(t *testing.T) {
	cloned := &clone.VirtualMachineClone{}
	cloned.Name, cloned.Namespace = "c", key.Namespace
	completed, restore := cloneOf("c", "web"), restoreOf("tmp-restore-c-1", "two")
	completed.Status.Phase = clone.RestoreInProgress
	restore.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(completed, clone.VirtualMachineCloneKind)}
	restore.Status = &api.VirtualMachineRestoreStatus{Complete: ptr.To(true)}
	malformedSnapshot, malformedRestore := snapshotOf("s"), restoreOf("r", "web")
	malformedSnapshot.Spec.Source.Kind, malformedRestore.Spec.Target.Kind = "Pod", "Pod"
	for why, test := range map[string]struct {
		object client.Object
		// begins is how many steps begin the object: a finalizer and the first status.
		begins    int
		refused   bool
		reconcile func(*reconcilers) operation.ReconcileFunc
	}{
		"a snapshot fails":                 {malformedSnapshot, 2, false, func(r *reconcilers) operation.ReconcileFunc { return r.snapshot.Reconcile }},
		"a restore fails":                  {malformedRestore, 2, false, func(r *reconcilers) operation.ReconcileFunc { return r.restore.Reconcile }},
		"a clone fails":                    {cloned, 0, false, func(r *reconcilers) operation.ReconcileFunc { return r.clone.Reconcile }},
		"a clone completes":                {completed, 0, false, func(r *reconcilers) operation.ReconcileFunc { return r.clone.Reconcile }},
		"a restore is refused for a while": {restoreOf("r", "web"), 2, true, func(r *reconcilers) operation.ReconcileFunc { return r.restore.Reconcile }},
	} {
		in := newCluster(t, nil, testVM(), restore.DeepCopy(), test.object)
		recorder, lost := events.NewFakeRecorder(10), apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("it has changed"))
		raced := false
		in.reconcilers.cluster.Events = recorder
		in.reconcilers.cluster.Live = interceptor.NewClient(in.WithWatch, interceptor.Funcs{
			Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
				if _, is := into.(*api.VirtualMachineSnapshot); is && test.refused {
					return apierrors.NewForbidden(schema.GroupResource{}, key.Name, errors.New("a quota"))
				}
				return to.Get(ctx, key, into, options...)
			},
			SubResourcePatch: func(
				ctx context.Context, to client.Client, of string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
			) error {
				if cloned, is := object.(*clone.VirtualMachineClone); raced && (!is || cloned.Status.Phase != clone.RestoreInProgress) {
					return lost // the write that ends the clone, and not the write before
				}
				return to.SubResource(of).Patch(ctx, object, patch, options...)
			},
		})
		step := func() error {
			_, err := test.reconcile(in.reconcilers)(t.Context(), client.ObjectKeyFromObject(test.object))
			return err
		}
		for range test.begins {
			in.must(step())
		}
		raced = true
		if err := step(); !apierrors.IsConflict(err) || len(recorder.Events) > 0 {
			t.Errorf("%s: a write that lost a race returns %v, and has %d events", why, err, len(recorder.Events))
		}
		raced = false
		if err := step(); err != nil || len(recorder.Events) != 1 {
			t.Errorf("%s: the write returns %v, and has %d events, want 1", why, err, len(recorder.Events))
		}
	}
}
