package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestMalformedRecordIsReported: a malformed record leads to a condition that names the remedy, and not to a retry.
func TestMalformedRecordIsReported(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	c.bootAndShutDown(`{"devices":{"disk.a":{"usb":"9999:1"}}}`)
	c.reconcileRepeatedly()
	failure := failureOf(c.vm())
	if c.vmi() != nil || failure == nil || !strings.Contains(failure.Message, "guesthardwares[a].spec.hardware") ||
		!strings.Contains(failure.Message, "kilnvm.io/hardware: latest") {
		t.Errorf("guest %v, condition %+v", c.vmi(), failure)
	}
}

// TestMessagesAreBounded: an error of megabytes becomes a condition that the API server stores.
func TestMessagesAreBounded(t *testing.T) {
	var mistakes field.ErrorList
	for i := range 1_000 { // few and long: apimachinery joins them one by one, each time by a copy of all before
		mistakes = append(mistakes, field.Invalid(field.NewPath("spec").Index(i), strings.Repeat("ü", 1_500), "is wrong"))
	}
	for why, refused := range map[string]error{
		"invalid":  apierrors.NewInvalid(v1.VirtualMachineInstanceGroupVersionKind.GroupKind(), "a", mistakes),
		"too long": apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"for etcd": apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
	} {
		c := newCluster(t, newVM(v1.RunStrategyAlways))
		c.controller.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return refused },
		})
		var result ctrl.Result
		var err error
		for range 3 { // the identity, the pins and the guest are one call each
			result, err = c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		}
		failure := failureOf(c.vm())
		if err != nil || result.RequeueAfter == 0 || failure == nil || len(failure.Message) > 4<<10 || !utf8.ValidString(failure.Message) {
			t.Errorf("%s: %v, %v, condition %.200v", why, result, err, failure)
		}
	}
}

func failureOf(vm *v1.VirtualMachine) *v1.VirtualMachineCondition {
	for i, condition := range vm.Status.Conditions {
		if condition.Type == v1.VirtualMachineFailure && condition.Status == corev1.ConditionTrue {
			return &vm.Status.Conditions[i]
		}
	}
	return nil
}

// TestGuestOfAForgedOwner: a VMI only belongs to a VM if its owner reference names the VM. Admission refuses such a reference from users, but not a reference
// of another kind with the VM's UID.
func TestGuestOfAForgedOwner(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	for _, owner := range []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: vm.Name, UID: vm.UID},
		{APIVersion: "example.com/v1", Kind: "VirtualMachine", Name: vm.Name, UID: vm.UID},
		{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "other", UID: vm.UID},
	} {
		owner.Controller = new(true)
		guest := &v1.VirtualMachineInstance{}
		guest.Name, guest.Namespace, guest.UID = vm.Name, vm.Namespace, "forged"
		guest.Status.NodeName = "node"
		guest.OwnerReferences = []metav1.OwnerReference{owner}
		c := newCluster(t, newVM(v1.RunStrategyAlways), guest)
		c.reconcileRepeatedly()
		found := c.hardware()
		if failure := failureOf(c.vm()); found != nil || failure == nil || failure.Reason != "NameTaken" || c.vm().Status.Created {
			t.Errorf("%s %s: hardware %v, condition %+v", owner.APIVersion, owner.Kind, found, failure)
		}
	}
}
