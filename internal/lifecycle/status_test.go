package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/resolve"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestPrintableStatusOfHinderedGuests: a guest that does not start has KubeVirt's status in column STATUS, the message in condition Ready, and one event.
func TestPrintableStatusOfHinderedGuests(t *testing.T) {
	for reason, want := range map[string]v1.VirtualMachinePrintableStatus{
		v1alpha1.ReasonFailedPvcNotFound: "ErrorPvcNotFound", v1alpha1.ReasonFailedDataVolumeImport: "DataVolumeError",
		v1alpha1.ReasonProvisioning: "Provisioning", v1alpha1.ReasonWaitingForVolumeBinding: "WaitingForVolumeBinding",
		v1alpha1.ReasonUnschedulable: "ErrorUnschedulable", v1alpha1.ReasonFailedCreate: "ErrorUnschedulable",
		v1alpha1.ReasonNotPlaceable: "ErrorUnschedulable", v1alpha1.ReasonErrImagePull: "ErrImagePull", v1alpha1.ReasonErrImageNeverPull: "ErrImagePull",
		v1alpha1.ReasonImagePullBackOff: "ImagePullBackOff", v1alpha1.ReasonStartFailed: "CrashLoopBackOff", v1alpha1.ReasonNotBindable: "CrashLoopBackOff",
		v1alpha1.ReasonPodStarting: "Starting",
	} {
		c := newCluster(t, newVM(v1.RunStrategyAlways))
		c.reconcileRepeatedly()
		vmi := c.vmi()
		condition.SetRefused(vmi, condition.Cause{Reason: reason, Message: "why"})
		if err := c.Status().Update(t.Context(), vmi); err != nil {
			t.Fatal(err)
		}
		c.reconcileRepeatedly()
		c.reconcileRepeatedly()
		vm := c.vm()
		if ready := conditionOf(vm, v1.VirtualMachineReady); vm.Status.PrintableStatus != want || ready.Reason != reason || ready.Message != "why" {
			t.Errorf("%s: STATUS %s, want %s; Ready %+v", reason, vm.Status.PrintableStatus, want, ready)
		}
		var recorded []string
		for len(c.eventRecorder().Events) > 0 {
			recorded = append(recorded, <-c.eventRecorder().Events)
		}
		if warnings := slices.DeleteFunc(recorded, func(event string) bool { return !strings.HasPrefix(event, "Warning") }); len(warnings) != 1 ||
			warnings[0] != "Warning "+reason+" why" {
			t.Errorf("%s: events %q", reason, warnings)
		}
	}
}

// TestStatusWithoutAGuest: a VM whose VMI cannot be created is not starting.
func TestStatusWithoutAGuest(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "missing", Kind: "VirtualMachineClusterInstancetype"}
	c := newCluster(t, vm)
	c.reconcileRepeatedly()
	failure, ready := conditionOf(c.vm(), v1.VirtualMachineFailure), conditionOf(c.vm(), v1.VirtualMachineReady)
	if got := c.vm().Status.PrintableStatus; got != v1.VirtualMachineStatusStopped || failure.Reason != v1alpha1.ReasonFailedFindInstancetype {
		t.Errorf("STATUS %s, Failure %+v", got, failure)
	}
	if ready.Status != "False" || ready.Reason != failure.Reason || ready.Message != failure.Message {
		t.Errorf("Ready is %+v, want what Failure says", ready)
	}
}

// TestReadySaysWhere: condition Ready of a VM names the node of its guest, because no field of a VM does.
func TestReadySaysWhere(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	vmi := c.vmi()
	vmi.Status.NodeName = "n1"
	condition.SetRunning(vmi)
	if err := c.Status().Update(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	c.reconcileRepeatedly()
	if ready := conditionOf(c.vm(), v1.VirtualMachineReady); ready.Status != corev1.ConditionTrue || ready.Message != "the guest runs on node 'n1'" {
		t.Errorf("Ready is %+v", ready)
	}
}

// TestGenerations: observedGeneration is the generation of each VM that the controller has seen, whatever becomes of the edit.
func TestGenerations(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	expect := func(why string, observed, desired int64) {
		t.Helper()
		c.reconcileRepeatedly()
		if got := c.vm().Status; got.ObservedGeneration != observed || got.DesiredGeneration != desired {
			t.Errorf("%s: observed %d, desired %d; want %d, %d", why, got.ObservedGeneration, got.DesiredGeneration, observed, desired)
		}
	}
	edit := func(change func(*v1.VirtualMachine)) {
		t.Helper()
		vm := c.vm()
		vm.Generation++ // as the API server does
		change(vm)
		if err := c.Update(t.Context(), vm); err != nil {
			t.Fatal(err)
		}
	}
	expect("a guest was created", 1, 1)
	c.setPhase(v1.Running)
	edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "new" })
	expect("an edit waits for a restart", 2, 2)
	if len(conditionsOfType(c.vm(), v1.VirtualMachineRestartRequired)) == 0 {
		t.Error("no condition says that the edit waits")
	}
	c.shutDownGuest()
	expect("another guest was created", 2, 2)
	c.setPhase(v1.Running)
	edit(func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = new(v1.RunStrategyRerunOnFailure) })
	expect("an edit beside the template", 3, 3)
	edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "missing"}} })
	expect("a mistake", 4, 4)
	for _, forged := range []string{"7", "0", "-1", "two", ""} {
		vmi := c.vmi()
		vmi.Annotations[v1.VirtualMachineGenerationAnnotation] = forged
		if err := c.Update(t.Context(), vmi); err != nil {
			t.Fatal(err)
		}
		expect("the guest says '"+forged+"', which cannot be", 4, 4)
	}
	paused := c.vmi()
	paused.Status.Conditions = append(paused.Status.Conditions,
		v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstancePaused, Status: corev1.ConditionTrue})
	if err := c.Status().Update(t.Context(), paused); err != nil {
		t.Fatal(err)
	}
	edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "newer" })
	expect("a paused guest", 5, 5)
	halted := v1.RunStrategyHalted
	edit(func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = &halted })
	expect("no guest", 6, 6)
	edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "newest" })
	expect("an edit of a stopped VM", 7, 7)
	vm := c.vm()
	vm.Finalizers = append(vm.Finalizers, "example.com/kept")
	if err := c.Update(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "last" })
	expect("an edit of a VM that is being deleted", 8, 8)
}

// TestFirstStatus: the first reconcile of a new VM writes its status and delays nothing, however many VMs are new.
func TestFirstStatus(t *testing.T) {
	pins := map[string]string{v1alpha1.AnnotationPins: "{}"}
	for why, of := range map[string]struct {
		strategy    v1.VirtualMachineRunStrategy
		annotations map[string]string
		want        v1.VirtualMachinePrintableStatus
	}{
		"stopped":                            {v1.RunStrategyHalted, pins, v1.VirtualMachineStatusStopped},
		"stopped, and not pinned by webhook": {v1.RunStrategyHalted, nil, v1.VirtualMachineStatusStopped},
		"stopped until a user starts it":     {v1.RunStrategyManual, pins, v1.VirtualMachineStatusStopped},
		"to run":                             {v1.RunStrategyAlways, pins, v1.VirtualMachineStatusStarting},
	} {
		var vms []client.Object
		for i := range 40 {
			vm := newVM(of.strategy)
			vm.Name, vm.Annotations = fmt.Sprint("vm-", i), of.annotations
			vms = append(vms, vm)
		}
		c := newCluster(t, vms...)
		for _, vm := range vms {
			name := client.ObjectKeyFromObject(vm)
			result, err := c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: name})
			if err != nil || result != (ctrl.Result{}) {
				t.Fatalf("a VM that is %s: its first reconcile returns %+v, %v", why, result, err)
			}
			var stored v1.VirtualMachine
			if err := c.Get(t.Context(), name, &stored); err != nil || stored.Status.PrintableStatus != of.want {
				t.Fatalf("a VM that is %s has status '%s' after its first reconcile, want '%s': %v", why, stored.Status.PrintableStatus, of.want, err)
			}
		}
	}
}

// fakeKubeVirt is KubeVirt whose status references are always replaced.
type fakeKubeVirt struct{}

func (fakeKubeVirt) Register(ctrl.Manager) error { return nil }

func (fakeKubeVirt) SetReferences(_ context.Context, _ resolve.Resolver, vm *v1.VirtualMachine, instancetype, preference *v1.InstancetypeStatusRef) error {
	vm.Status.InstancetypeRef, vm.Status.PreferenceRef = instancetype, preference
	return nil
}

// TestConflictRepeatsNoEvent: another writer changes the VM between read and status write, so that the reconcile is repeated. The event about the missing
// preference is recorded once.
func TestConflictRepeatsNoEvent(t *testing.T) {
	for _, beside := range []bool{false, true} {
		vm := newVM(v1.RunStrategyAlways)
		vm.Spec.Instancetype, vm.Spec.Preference = &v1.InstancetypeMatcher{Name: "small"}, &v1.PreferenceMatcher{Name: "missing"}
		c := newCluster(t, vm, smallInstancetype())
		if beside {
			c.controller.KubeVirt = fakeKubeVirt{}
		}
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
