package lifecycle

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestConflictRepeatsNoEvent: another writer changes the VM between read and status write, so that the reconcile is repeated. The event about the missing
// preference is recorded once.
func TestConflictRepeatsNoEvent(t *testing.T) {
	for _, beside := range []bool{false, true} {
		vm := newVM(v1.RunStrategyAlways)
		vm.Spec.Instancetype, vm.Spec.Preference = &v1.InstancetypeMatcher{Name: "small"}, &v1.PreferenceMatcher{Name: "missing"}
		c := newCluster(t, vm, smallInstancetype())
		c.controller.Beside = beside
		conflicts := 0
		c.controller.Client = interceptor.NewClient(c.controller.Client.(client.WithWatch), interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, to client.Client, of string, object client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
				if conflicts++; conflicts == 1 {
					return apierrors.NewConflict(schema.GroupResource{Resource: "virtualmachines"}, object.GetName(), nil)
				}
				return to.SubResource(of).Patch(ctx, object, p, o...)
			},
		})
		for _, want := range []ctrl.Result{{RequeueAfter: conflictRetry}, {RequeueAfter: minRecheck}} {
			if result, err := c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil || result != want {
				t.Errorf("beside KubeVirt %t: reconciled with %+v, %v; want %+v", beside, result, err, want)
			}
		}
		if n := len(c.eventRecorder().Events); n != 1 {
			t.Fatalf("beside KubeVirt %t: %d events, want one", beside, n)
		}
		if event := <-c.eventRecorder().Events; !strings.HasPrefix(event, "Warning FailedFindPreference") {
			t.Errorf("beside KubeVirt %t: event '%s'", beside, event)
		}
	}
}
