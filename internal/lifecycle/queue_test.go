package lifecycle

import (
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/fairqueue"
	"k8s.io/client-go/util/workqueue"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// idle is a new VM that needs only its first status.
func idle(namespace, name string) *v1.VirtualMachine {
	vm := machine(v1.RunStrategyHalted)
	vm.Namespace, vm.Name, vm.Annotations = namespace, name, map[string]string{v1alpha1.AnnotationPins: "{}"}
	return vm
}

// TestStartsComeBeforeFirstStatuses: whatever a new VM asks for comes before the first statuses of the VMs of its namespace that were created before, and
// another namespace does not wait for either.
func TestStartsComeBeforeFirstStatuses(t *testing.T) {
	for why, change := range map[string]func(*v1.VirtualMachine){
		"that admission has not pinned": func(vm *v1.VirtualMachine) { vm.Annotations = nil },
		"that is to run":                func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = new(v1.RunStrategyAlways) },
		"that is asked to start paused": func(vm *v1.VirtualMachine) {
			vm.Status.StateChangeRequests = []v1.VirtualMachineStateChangeRequest{
				{Action: v1.StartRequest, Data: map[string]string{v1.StartRequestDataPausedKey: v1.StartRequestDataPausedTrue}},
			}
		},
		"with a status":                          func(vm *v1.VirtualMachine) { vm.Status.PrintableStatus = v1.VirtualMachineStatusStopped },
		"of another namespace, which is stopped": func(vm *v1.VirtualMachine) { vm.Namespace = "other" },
	} {
		queue := fairqueue.New("test", workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
		for i := range 300 {
			(&vmEvents{}).Create(t.Context(), event.CreateEvent{Object: idle("team", fmt.Sprint("stopped-", i))}, queue)
		}
		late := idle("team", "late")
		change(late)
		(&vmEvents{}).Create(t.Context(), event.CreateEvent{Object: late}, queue)
		before := 0
		for {
			got, _ := queue.Get()
			queue.Done(got)
			if got.NamespacedName == client.ObjectKeyFromObject(late) {
				break
			}
			before++
		}
		if before > 1 {
			t.Errorf("a VM %s comes after %d others", why, before)
		}
		queue.ShutDown()
	}
}

// TestEachFirstStatusIsWrittenAtOnce: the first reconcile of a stopped VM writes its status, however many are new.
func TestEachFirstStatusIsWrittenAtOnce(t *testing.T) {
	var objects []client.Object
	for i := range 40 {
		objects = append(objects, idle(key.Namespace, fmt.Sprint("vm-", i)))
	}
	c := newCluster(t, objects...)
	for _, object := range objects {
		if _, err := c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}); err != nil {
			t.Fatal(err)
		}
		var vm v1.VirtualMachine
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), &vm); err != nil || vm.Status.PrintableStatus != v1.VirtualMachineStatusStopped {
			t.Errorf("%s has status '%s' after its first reconcile: %v", vm.Name, vm.Status.PrintableStatus, err)
		}
	}
}
