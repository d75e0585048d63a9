package node

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestRecordThatDoesNotFit: a guest that cannot be recorded does not start, and says why and what mends it.
func TestRecordThatDoesNotFit(t *testing.T) {
	tooLong := field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", 256<<10)}
	for why, refusal := range map[string]error{
		"annotations of more than 256 KiB":  apierrors.NewInvalid(v1.VirtualMachineInstanceGroupVersionKind.GroupKind(), "large", tooLong),
		"a request that is too large":       apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"an object that etcd does not take": apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
	} {
		t.Run(why, func(t *testing.T) {
			vmi := claimed(t, "large")
			cluster := holding(t, vmi)
			refusing := interceptor.NewClient(cluster.(client.WithWatch), interceptor.Funcs{
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return refusal },
			})
			n := node(t, daemon(t), refusing, cluster)
			result, err := n.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(vmi)})
			if err != nil || result.RequeueAfter != retryInterval {
				t.Errorf("%v, %v: it is not to be tried again at once", result, err)
			}
			after := &v1.VirtualMachineInstance{}
			if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(vmi), after); err != nil {
				t.Fatal(err)
			}
			told := false
			for _, c := range after.Status.Conditions {
				told = told || c.Type == v1.VirtualMachineInstanceSynchronized && c.Status == "False" && c.Reason == reasonNotRecordable &&
					strings.Contains(c.Message, "262144 bytes") && strings.Contains(c.Message, "shorten")
			}
			if !told || after.Status.Phase != v1.Scheduled || after.Annotations[v1alpha1.AnnotationFrontend] != "" {
				t.Errorf("phase '%s', conditions %+v", after.Status.Phase, after.Status.Conditions)
			}
		})
	}
}

// TestConditionsAreBounded: whatever an error says, the status can be written.
func TestConditionsAreBounded(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{}
	setSynchronized(vmi, "False", reasonNotBindable, strings.Repeat("ü", 1<<20))
	if got := vmi.Status.Conditions[0].Message; len(got) > 4<<10 || !strings.HasSuffix(got, " bytes more") {
		t.Errorf("a message of %d bytes", len(got))
	}
}
