package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kilnvm/kiln/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestForgedRecordIsNotSaved: what no boot can have written is not saved with the controller's rights, and pushes no good record out.
func TestForgedRecordIsNotSaved(t *testing.T) {
	c := newCluster(t, machine(v1.RunStrategyAlways))
	c.step()
	const seen = `{"machine":"pc-q35-7.2"}`
	c.frontend(seen)
	c.phase(v1.Running)
	c.step()
	for _, forged := range []string{`{"devices":{"disk.a":{"drive":"9:9:9:9"}}}`, `garbage`, `{"devices":{"disk.a":{"drive":"4000000000:0:0:0"}}}`} {
		c.frontend(forged)
		c.step()
		c.step() // what was told is not told again
	}
	records, err := c.controller.records(t.Context(), c.vm())
	if err != nil || len(records) != 1 || string(records[0].Data.Raw) != seen {
		t.Errorf("records %v, %v; want the one of the boot", records, err)
	}
	told := 0
	for range len(c.recorder().Events) {
		if event := <-c.recorder().Events; strings.Contains(event, "HardwareNotRecorded") {
			told++
		}
	}
	if told != 3 {
		t.Errorf("%d events, want one for each record", told)
	}
	if err := c.Delete(t.Context(), c.guest()); err != nil {
		t.Fatal(err)
	}
	c.step()
	c.step()
	if next := c.guest(); next == nil || next.Annotations[v1alpha1.AnnotationFrontend] != seen {
		t.Errorf("the next guest %v is not given what the boot recorded", next)
	}
}

// TestStoredGarbageIsTold: a stored record that cannot be read gives a condition with the remedy; trying again mends nothing.
func TestStoredGarbageIsTold(t *testing.T) {
	vm := machine(v1.RunStrategyAlways)
	stored := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"devices":{"disk.a":{"usb":"9999:1"}}}`)}, Revision: 1}
	stored.Name, stored.Namespace, stored.Labels = "old", vm.Namespace, map[string]string{v1alpha1.LabelFrontendOf: string(vm.UID)}
	stored.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)}
	c := newCluster(t, vm, stored)
	c.step()
	failure := failureOf(c.vm())
	if c.guest() != nil || failure == nil || !strings.Contains(failure.Message, "controllerrevisions[old]") || !strings.Contains(failure.Message, "kilnvm.io/hardware: latest") {
		t.Errorf("guest %v, condition %+v", c.guest(), failure)
	}
}

// TestMessagesAreBounded: an answer of megabytes becomes a condition that can be written.
func TestMessagesAreBounded(t *testing.T) {
	var mistakes field.ErrorList
	for i := range 20_000 {
		mistakes = append(mistakes, field.Invalid(field.NewPath("spec").Index(i), strings.Repeat("ü", 30), "is wrong"))
	}
	for why, refusal := range map[string]error{
		"invalid":  apierrors.NewInvalid(v1.VirtualMachineInstanceGroupVersionKind.GroupKind(), "a", mistakes),
		"too long": apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"for etcd": apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
	} {
		c := newCluster(t, machine(v1.RunStrategyAlways))
		c.controller.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return refusal },
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

// TestGuestOfAForgedOwner: only a reference to the VM itself makes a guest the VM's. Admission refuses that from users; a reference of another
// kind that bears the VM's UID is nobody's to refuse.
func TestGuestOfAForgedOwner(t *testing.T) {
	vm := machine(v1.RunStrategyAlways)
	for _, owner := range []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: vm.Name, UID: vm.UID},
		{APIVersion: "example.com/v1", Kind: "VirtualMachine", Name: vm.Name, UID: vm.UID},
		{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "other", UID: vm.UID},
	} {
		owner.Controller = new(true)
		guest := &v1.VirtualMachineInstance{}
		guest.Name, guest.Namespace, guest.UID = vm.Name, vm.Namespace, "forged"
		guest.Annotations = map[string]string{v1alpha1.AnnotationFrontend: `{"machine":"pc-q35-4.2"}`}
		guest.OwnerReferences = []metav1.OwnerReference{owner}
		c := newCluster(t, machine(v1.RunStrategyAlways), guest)
		c.step()
		records, err := c.controller.records(t.Context(), c.vm())
		if failure := failureOf(c.vm()); err != nil || len(records) > 0 || failure == nil || failure.Reason != "NameTaken" || c.vm().Status.Created {
			t.Errorf("%s %s: records %v, condition %+v", owner.APIVersion, owner.Kind, records, failure)
		}
	}
}
